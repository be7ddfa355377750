"""Virtual environments without what is installed here."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import attrs
from distributions import ROOT


@attrs.frozen
class Environment:
    """A virtual environment."""

    root: Path

    @classmethod
    def make(cls, root):
        """Make an environment that has pip alone."""
        venv.create(root, with_pip=True)
        return cls(root)

    @property
    def programs(self):
        """The directory of its programs."""
        return self.root / ("Scripts" if sys.platform == "win32" else "bin")

    def call(self, *words, cwd):
        """Run a command in it; returns what it prints."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        environment.pop("PYTHONPATH", None)
        program, *arguments = map(str, words)
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pip(self, command, *what, cwd=ROOT):
        """Run a command of pip."""
        quiet = ("--quiet", "--disable-pip-version-check")
        self.call("python", "-m", "pip", command, *quiet, *what, cwd=cwd)

    def install(self, *what, cwd=ROOT):
        """Install with pip; most of torch and transformers is never imported, and need not be compiled."""
        self.pip("install", "--no-compile", *what, cwd=cwd)
