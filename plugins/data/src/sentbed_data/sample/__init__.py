"""The sample corpus; see README.md."""
