"""Executors for sentbed: this process, several processes, or the machines of a Ray cluster."""
