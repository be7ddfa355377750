"""What needs torch; imported when a classifier is trained."""
