"""A process with too little memory ends with a sentence, and not with a plugin's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

resource = pytest.importorskip("resource", reason="needs limits as Unix has them")
ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux's limit of the address space"
)
@pytest.mark.parametrize("megabytes", [300, 900])
def test_a_run_without_memory_says_so(tmp_path, megabytes):
    most = megabytes << 20
    command = [
        sys.executable,
        "-m",
        "sentbed",
        "run",
        str(ROOT / "recipes" / "scratch.toml"),
    ]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        capture_output=True,
        text=True,
        check=False,
        env={"OMP_NUM_THREADS": "1", "PATH": ""},
    )
    assert done.returncode == 1
    assert (
        "error: the memory is used up; free some, or allow this process more"
        in done.stderr
    )
    assert "`--traceback`" not in done.stderr
