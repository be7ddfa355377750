"""The levels of intervals and tests in tables."""

CONFIDENCE = 0.95

SIGNIFICANT = 0.05
"""P-value below which tables mark a difference."""
