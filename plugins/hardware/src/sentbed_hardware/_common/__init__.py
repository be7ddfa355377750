"""Modules that both `engine_parts` and `_torch` use; importing them imports torch."""
