"""What engines of PyTorch and of JAX share; it imports torch."""
