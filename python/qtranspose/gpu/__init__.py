"""Kernels for GPUs: lowering through the GPU dialect, and an emulator that executes their PTX without a GPU."""
