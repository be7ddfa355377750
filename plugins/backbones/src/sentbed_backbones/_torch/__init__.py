"""The backbones as torch modules; imported by `build` only."""
