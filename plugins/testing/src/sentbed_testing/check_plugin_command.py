"""The command `check-plugin`: it runs pytest on the contracts of a plugin and of everything that it offers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from sentbed_testing.offers import plugins_named

TESTS = """\
from sentbed_testing import contracts_of

globals().update(contracts_of({name!r}))
"""
OPTIONS = ("-q", "-rfs", "-c", os.devnull, "-p", "no:cacheprovider")
"""Options of pytest: a line for each failure and each reason why tests were not run; no settings of a project."""


@click.command("check-plugin")
@click.argument("name")
def check_plugin(name: str) -> None:
    """Check the plugin NAME and its components against the contracts of their kinds, with pytest.

    NAME is the name of a plugin or of its distribution, as `sentbed plugins` lists them. A component is tested
    with its defaults. Tests that cannot be run are listed with the reason.
    """
    plugins_named(name)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "test_plugin.py")
        file.write_text(TESTS.format(name=name), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", *OPTIONS, str(file)]
        path = os.pathsep.join(sys.path)
        process = subprocess.run(
            [*command, "--rootdir", directory],
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    sys.exit(process.returncode)
