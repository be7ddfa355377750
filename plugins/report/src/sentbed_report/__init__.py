"""Reports of runs: pages, tables, plots, and confidence intervals."""
