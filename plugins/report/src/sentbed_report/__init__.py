"""Reports of runs: pages, tables, plots, and how sure their numbers are."""
