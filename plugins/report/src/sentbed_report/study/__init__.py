"""Results of a study: its cells and runs, the tables of their scores, and tests of their differences."""
