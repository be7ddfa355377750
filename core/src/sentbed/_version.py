"""Versions of sentbed and of its plugin API."""

__version__ = "0.1.0"

API_VERSION = "3.0"
"""Version of the plugin API, MAJOR.MINOR; a minor version only adds. See `sentbed_api`."""
