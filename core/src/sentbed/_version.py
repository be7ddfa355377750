"""The versions of sentbed and of its plugin API."""

__version__ = "0.1.0"

API_VERSION = "3.1"
"""Version of the plugin API, MAJOR.MINOR.

A minor version only adds to the API. A plugin declares `sentbed_api`.
"""
