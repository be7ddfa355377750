"""Modules that need torch. They are imported only when an encoder is exported or imported."""
