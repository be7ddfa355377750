"""Pages whose commands are pasted into a shell: an environment on top of this one, and a shell in it."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from pathlib import Path


def environment_on_top(directory):
    """Make an environment on top of this one: what is installed there is not installed here."""
    venv.create(directory, with_pip=False)
    paths = sysconfig.get_paths(
        vars={"base": str(directory), "platbase": str(directory)}
    )
    # `addsitedir` also reads the .pth files there, by which distributions are installed as editable.
    beneath = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (Path(paths["purelib"]) / "beneath.pth").write_text(beneath)
    scripts = Path(paths["scripts"])
    for name, module in {"sentbed": "sentbed", "pip": "pip"}.items():
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec "{scripts}/python" -m {module} "$@"\n')
        script.chmod(0o755)
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "SENTBED_DATA")
        },
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        # Its name says the opposite: 0 is for no isolation, which would fetch the build backend.
        "PIP_NO_BUILD_ISOLATION": "0",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
        "HF_HUB_OFFLINE": "1",
    }


def paste(command, directory, environment, seconds=300):
    """Run a line in a POSIX shell; the result has its output and errors in one text."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
