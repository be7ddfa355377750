"""The sample corpus (see README.md) and the grammar that writes it."""
