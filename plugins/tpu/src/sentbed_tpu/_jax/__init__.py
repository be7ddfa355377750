"""The engine on JAX. Importing it imports JAX, so only the runtime's method `build` does."""
