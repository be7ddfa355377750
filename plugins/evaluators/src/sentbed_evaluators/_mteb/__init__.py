"""What imports mteb, and with it torch; imported when an evaluation or a user asks for it."""
