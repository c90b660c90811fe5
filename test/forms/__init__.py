"""Generated corpus of dequantized-weight spellings with an independent NumPy reference."""
