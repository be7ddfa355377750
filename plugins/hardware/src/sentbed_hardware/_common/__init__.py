"""What `engine_parts` and the engine on PyTorch have below them; it imports torch."""
