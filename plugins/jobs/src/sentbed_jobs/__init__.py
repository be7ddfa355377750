"""Executors for sentbed: this process, processes beside it, or the machines of a Ray cluster."""
