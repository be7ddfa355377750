"""Pages that show which items make up the difference between two cells."""
