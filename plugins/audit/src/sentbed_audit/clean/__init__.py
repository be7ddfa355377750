"""Which items of evaluations occur in training texts, and scores on the others."""
