"""qtranspose: MLIR passes for quantized weights and the transposes around them."""
