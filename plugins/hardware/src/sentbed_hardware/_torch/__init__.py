"""The engine on PyTorch. Importing it imports torch, so only the `build` methods of the runtimes do."""
