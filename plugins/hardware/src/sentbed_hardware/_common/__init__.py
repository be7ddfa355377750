"""Modules shared by the engines on PyTorch and JAX; they import torch."""
