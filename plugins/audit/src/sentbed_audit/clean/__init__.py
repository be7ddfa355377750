"""Overlap of evaluation items with training texts, and scores on clean items, which do not occur there."""
