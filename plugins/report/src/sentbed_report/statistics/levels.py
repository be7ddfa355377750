"""Levels of the confidence intervals and significance tests in tables."""

CONFIDENCE = 0.95
"""Confidence level of intervals."""

SIGNIFICANT = 0.05
"""Level of the tests; tables mark a difference whose p-value is lower."""
