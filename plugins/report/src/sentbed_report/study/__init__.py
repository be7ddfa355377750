"""The numbers of a study: its cells, their tables, and which differences are real."""
