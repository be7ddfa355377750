"""What needs torch; imported when an encoder is written or read."""
