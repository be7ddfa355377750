"""Modules that import torch; imported only when one of their functions is needed."""
