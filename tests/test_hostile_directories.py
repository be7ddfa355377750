"""Directories of strangers: what they say is never run, and what they bring never ends up elsewhere."""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys

import pytest
from sentbed import load_recipe
from sentbed.tools import resolved_toml
from torch._C._distributed_c10d import TCPStore

RECIPE = """\
schema = 1
[run]
name = "theirs"
cache = false
[runtime]
use = "cpu"
nodes = 2
rendezvous = "127.0.0.1:{port}"
[encoder]
backbone = {{ use = "bert", init = "random", vocab_size = 512 }}
pooler = {{ use = "mean" }}
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
"""


@pytest.mark.slow
def test_a_run_that_is_resumed_meets_nobody_whom_its_directory_names(
    tmp_path,
):
    """A server at the address answers what torch's elastic rendezvous would unpickle."""
    ran = tmp_path / "ran"

    class Program:
        def __reduce__(self):
            return os.mkdir, (str(ran),)

    server = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    server.set("torch.rendezvous.sentbed", base64.b64encode(pickle.dumps(Program())))
    (tmp_path / "recipe.toml").write_text(RECIPE.format(port=server.port))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "resolved.toml").write_text(
        resolved_toml(load_recipe(tmp_path / "recipe.toml"))
    )
    (theirs / "manifest.json").write_text(json.dumps({"status": "interrupted"}))

    command = [sys.executable, "-m", "sentbed", "run", "--resume", str(theirs)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False
    )
    assert not ran.exists()
    assert "Traceback" not in done.stderr
    output = " ".join((done.stdout + done.stderr).split())
    assert (
        "where a run works and with whom is not read from its directory: `runtime.nodes` (2), "
        in output
    )
    assert "--set runtime.nodes=2" in output
