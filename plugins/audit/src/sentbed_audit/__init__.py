"""Audit of results: what may be compared, and what may be claimed."""
