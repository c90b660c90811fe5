"""Hostile input: mutations of valid modules, pipelines, archives and encodings, given to the command line."""
