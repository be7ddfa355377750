"""What imports torch, for `sentbed plan`."""
