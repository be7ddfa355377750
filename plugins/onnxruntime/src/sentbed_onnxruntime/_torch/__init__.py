"""The engine around ONNX Runtime; imported by `build` only."""
