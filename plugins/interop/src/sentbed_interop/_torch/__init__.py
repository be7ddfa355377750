"""Modules that need torch; imported when an encoder is written or read."""
