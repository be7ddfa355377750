"""Reports of runs and studies: pages, tables, plots, confidence intervals and significance tests."""
