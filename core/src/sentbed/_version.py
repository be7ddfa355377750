"""The version of sentbed, and of what plugins are written against."""

__version__ = "0.1.0"

API_VERSION = "2.0"
"""What plugins are written against, MAJOR.MINOR: a minor version only adds; see `sentbed_api`."""
