"""The compiled extension: the C++ passes on the stock `mlir` package."""
