"""The engine on JAX; imported by `build` only."""
