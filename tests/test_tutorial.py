"""The tutorial works: each file is written and each command run, in order, in a new environment."""

from __future__ import annotations

import re
import sys

import pytest
from blocks import ROOT, blocks
from pasted import environment_on_top, paste

pytestmark = pytest.mark.slow


def _matches(shown, printed):
    """Whether `printed` is what a page shows, but for figures with a decimal point, which differ by machine.

    `...` stands for anything, alone in a line for any lines.
    """
    lines = []
    for line in shown.strip().splitlines():
        # A mark of significance follows from the figures.
        pattern = (
            re.escape(" ".join(line.split()).removesuffix(" *"))
            .replace(r"\ ", " ")
            .replace(r"\.\.\.", ".*")
        )
        pattern = re.sub(r"(?:\\-|−)?\d+\\\.\d+", r"[-−]?\\d+\\.\\d+", pattern)
        lines.append(r"(?:.*\n)*" if line.strip() == "..." else f"{pattern}\n")
    # Progress of a stage or of a part of an evaluation is printed where it takes long enough.
    progress = re.compile(r"\S+: (?:\S+: )?\d+ of \d+(?:, .*)?")
    printed_lines = [
        line for line in printed.strip().splitlines() if not progress.fullmatch(line)
    ]
    squeezed = "\n".join(
        " ".join(line.split()).removesuffix(" *") for line in printed_lines
    )
    return re.fullmatch("".join(lines), f"{squeezed}\n") is not None


@pytest.mark.skipif(
    sys.platform == "win32", reason="the commands are for a POSIX shell"
)
def test_the_tutorial_does_what_it_shows(tmp_path):
    environment = environment_on_top(tmp_path / "environment")
    directory = tmp_path / "work"
    directory.mkdir()
    printed, commands = "", 0
    for block in blocks(ROOT / "docs" / "tutorial.md"):
        if block.title:
            path = directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "console":
            printed = ""
            expected = re.fullmatch(r"exits with (\d+)", block.note or "")
            for line in block.text.splitlines():
                assert line.startswith("$ "), (
                    f"{block.name}: a command begins with `$ `"
                )
                done = paste(line[2:], directory, environment)
                commands += 1
                printed += done.stdout
                exit_code = int(expected[1]) if expected else 0
                assert done.returncode == exit_code, (
                    f"{block.name}: {line}\n{done.stdout}"
                )
        elif block.language == "text":
            assert _matches(block.text, printed), (
                f"{block.name}: shown\n{block.text}\nprinted\n{printed}"
            )
        else:
            pytest.fail(
                f"{block.name}: a block that is neither a file, nor a command, nor its output"
            )
    assert commands > 8
