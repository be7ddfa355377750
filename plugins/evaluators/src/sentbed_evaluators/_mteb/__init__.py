"""Modules that import mteb, and so torch; imported only when needed."""
