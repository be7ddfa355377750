"""The engine on ONNX Runtime. Importing it imports torch, so only the runtime's method `build` does."""
