"""The version of sentbed."""

__version__ = "0.1.0"
