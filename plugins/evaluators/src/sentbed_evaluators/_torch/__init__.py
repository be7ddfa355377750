"""Modules that need torch; imported when a classifier is trained."""
