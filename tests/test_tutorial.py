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


def test_what_a_page_shows_is_compared_with_what_was_printed():
    printed = "a  1\nb 2.5\n\nc (kept)\n"
    assert _matches("a 1\n...\nc (kept)", printed)
    assert _matches("a ...\nb ...\n\nc (kept)\n", printed)
    assert not _matches("a 1\nc (kept)", printed)
    assert _matches("a 1\nb 17.25\n\nc (kept)", printed)
    assert not _matches("a 2\nb 2.5\n\nc (kept)", printed)
    assert not _matches("a 1\nb 2x5\n\nc (kept)", printed)
    assert not _matches("a 1\n...", printed.replace("a", "z"))


@pytest.mark.parametrize(
    ("line", "is_progress"),
    [
        ("triplets: 8 of 12, loss 3.4657, validation 17.25, 0:00:31", True),
        ("triplets: 8 of 12", True),
        ("sts: encode: 96 of 128, 0:00:16, about 0:00:05 left", True),
        ("1 of 4: mean, seed 1: finished in 12 s", False),
        ("sts: 1 of 2 expected numbers met", False),
    ],
)
def test_progress_that_a_slow_machine_prints_is_not_compared(line, is_progress):
    assert _matches("a 1", f"{line}\na  1\n") == is_progress


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
