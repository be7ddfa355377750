"""Pages that show which items make the difference of two cells."""
