"""Results of a study: cells, tables, and significance of differences."""
