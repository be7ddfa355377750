"""Overlap of evaluation items with training texts, and scores on the other, clean items."""
