"""Commands of sentbed in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def start(*arguments, directory):
    """Start the command line in `directory`."""
    return subprocess.Popen(
        [sys.executable, "-m", "sentbed", *map(str, arguments)],
        cwd=directory,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until(condition, process, interval=0.02):
    """Wait until `condition()` holds, which has to be so while the process runs."""
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(interval)


def kill(process):
    """End a process without letting it clean up."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def finish(process, seconds=300):
    """Wait for a process to succeed, and return its standard output and error."""
    output, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, errors
    return output, errors
