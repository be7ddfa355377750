"""The PyTorch engine; imported by `build` only."""
