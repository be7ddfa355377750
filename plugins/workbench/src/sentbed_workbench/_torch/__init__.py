"""Modules of `sentbed plan` that import torch."""
