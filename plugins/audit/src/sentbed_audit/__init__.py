"""Audit of results: which scores may be compared, and which models differ."""
