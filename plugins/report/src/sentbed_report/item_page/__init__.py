"""The pages of items: from the difference of two cells to the items that make it."""
