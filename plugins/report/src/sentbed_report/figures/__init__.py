"""Figures of runs and studies, for pages of reports, for files and for notebooks."""
