"""The poolers as torch modules; imported by `build` only."""
