"""Figures of reports, of a run and of a study: for pages, for files and for notebooks."""
