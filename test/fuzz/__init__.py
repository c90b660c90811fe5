"""Differential fuzzing: random programs, executed before and after every pipeline and compared."""
