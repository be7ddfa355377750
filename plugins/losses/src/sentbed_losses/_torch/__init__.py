"""The losses as torch modules; imported by `build` only."""
