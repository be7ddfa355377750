"""Every command of the pages and of the recipes' heads is carried out here, up to a device or a download.

A command that takes a recipe loads it, with its overrides and every cell; others are run. Commands of the
tutorial are run by `test_tutorial.py`.
"""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
from pathlib import Path

import pytest
import sentbed
from blocks import ROOT, blocks, pages
from click.testing import CliRunner
from fragments import commands, understood
from mteb_folder import write_mteb_folder
from sentbed._cli.main import main
from sentbed._registry.registry import load_plugins
from sentbed_common import PRECISION_INSTRUCTIONS
from sentbed_studies.study import read_study
from sentbed_studies.study_command import entries

pytestmark = pytest.mark.slow

EXEMPT = {
    r"sentbed data get": "downloads: test_data_command.py of sentbed-data, from its own server",
    r"sentbed doctor": "says what a machine has: test_doctor_command.py",
    r"sentbed run .*--resume": "needs a run that was stopped: test_resume.py",
    r"sentbed (export|import) ": "needs libraries of others: the tests of sentbed-interop",
    r"sentbed encode .*--(executor|parallel)": "needs a cluster, or an example: test_executors.py",
    r"sentbed encode .*--runtime cuda": "needs a machine with several GPUs",
    r"sentbed new plugin": "makes a distribution: test_scaffold_alone.py installs it",
    r"sentbed run (examples|recipe)/|sentbed cost": "of an example, which is tested alone",
    r"sentbed run mine.toml --set encoder.pooler.use=largest|use=\"mine\"": "a plugin that the reader writes",
    r"sentbed study (status|report|plot|watch|power studies)": "a study that has run: test_study_command.py",
    r"torchrun ": "needs several machines: test_processes.py has two of them on one",
    r"sentbed overlap": "training texts of the reader: test_clean_items.py",
    r"sentbed diff": "two recipes that the page speaks of: test_diff_command.py of sentbed-workbench",
}
"""Beginning of a command -> why it is not carried out here."""

RECIPE_COMMANDS = {"run", "plan", "check", "explain", "study run"}
STUDIES = (
    "poolers-and-prompts.toml",
    "what-matters.toml",
    "study.toml",
    "STUDY.toml",
    "sweep.toml",
)
"""Files of the reader that are studies."""
WORDS = (
    "cat",
    "mat",
    "train",
    "kitchen",
    "ball",
    "dog",
    "river",
    "song",
    "house",
    "garden",
    "book",
)
"""What the reader's questions are about."""


def _documented():
    """Return every command of `sentbed`, with the place where it stands first."""
    places = {}
    for page in pages():
        for block in blocks(page):
            if (
                block.language in {"console", "bash", ""}
                and not block.not_run
                and page.name != "tutorial.md"
            ):
                for line in commands(block.text):
                    command = (
                        line.partition("   #")[0].strip().removeprefix("uv sync && ")
                    )
                    places.setdefault(command.removeprefix("uv run "), block.name)
    for path in sorted((ROOT / "recipes").rglob("*.toml")):
        for line in re.findall(
            r"^# Command: +(.+)$", path.read_text("utf-8"), re.MULTILINE
        ):
            places.setdefault(line, path.relative_to(ROOT).as_posix())
    return {
        line: at
        for line, at in places.items()
        if re.search(r"(^| )sentbed ", f" {line}")
    }


COMMANDS = _documented()


def _exempt(line):
    return any(re.search(pattern, line) for pattern in EXEMPT)


@pytest.fixture(scope="module")
def plugins():
    return load_plugins()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A directory with the files of the reader, an encoder and two runs."""
    place = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "recipes", place / "recipes")
    small = ["stage.triplets.epochs=", "stage.triplets.steps=2"]
    for name, seed in (("A", 1), ("B", 2), ("FIRST", 1), ("SECOND", 2), ("NAME", 1)):
        recipe = sentbed.load_recipe(
            ROOT / "recipes" / "scratch.toml", [*small, f"run.seed={seed}"]
        )
        sentbed.run(recipe, place / "runs" / name)
    for name in ("sentences.txt", "corpus.txt", "corpus/one.txt"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("A cat sits on the mat.\nIt rains.\n" * 8)
    (place / "dumps").mkdir()
    (place / "dumps" / "a.jsonl.gz").write_bytes(
        gzip.compress(b'{"body": "It rains.", "id": 1, "url": "u"}\n')
    )
    rows = [
        "score\tsentence1\tsentence2",
        "5\ta cat\tone cat",
        "1\ta cat\train",
        "0\tsun\tmud",
    ]
    (place / "pairs.tsv").write_text("\n".join(rows) + "\n")
    questions = [
        f"what is a {word}?\ta {word} is {answer}"
        for word, answer in zip(WORDS, reversed(WORDS), strict=True)
    ]
    (place / "questions.tsv").write_text(
        "\n".join(["question\tanswer", *questions]) + "\n"
    )
    write_mteb_folder(place / "results")
    return place


def _file(name, settings, place):
    """Return the recipe that a command names; the reader's own is one of ours with the stage it speaks of."""
    if name.startswith("recipes"):
        return place / name
    others = {
        "minilm.toml": "papers/minilm-sts.toml",
        **dict.fromkeys(STUDIES, "mini/studies/quick.toml"),
    }
    source = others.get(Path(name).name, "scratch.toml")
    text = (ROOT / "recipes" / source).read_text("utf-8")
    for stage in re.findall(r"stage\.([a-z][a-z-]*)", " ".join(settings)):
        text = text.replace('name = "triplets"', f'name = "{stage}"')
    (place / name).write_text(text, "utf-8")
    return place / name


def _load(command, parameters, place, plugins):
    """Load the recipe of a command as the command does, but for a look at this machine."""
    settings = parameters.get("overrides", ())
    if command == "reproduce":
        from sentbed_studies.paper_recipe_files import find_table

        paper, _, table = (parameters["what"] or "").partition(":")
        if table:
            read_study(
                find_table(place / "recipes" / "papers", paper, table),
                settings,
                plugins,
                False,
                entries(parameters["only"]),
            )
        return
    path = _file(
        parameters["recipe"] if "recipe" in parameters else parameters["recipes"][0],
        settings,
        place,
    )
    if path.is_dir():
        return
    if command == "study run":
        assert read_study(
            path, settings, plugins, False, entries(parameters["only"]) or None
        ).runs
    else:
        sentbed.load_recipe(path, settings, plugins, check_files=False)


def _case(line):
    """Return a case that asks for the instructions of the precision that the command names."""
    marks = [
        pytest.mark.instructions(precision)
        for precision in PRECISION_INSTRUCTIONS
        if f"precision={precision}" in line
    ]
    return pytest.param(line, marks=marks)


@pytest.mark.parametrize(
    "line", [_case(line) for line in COMMANDS if not _exempt(line)]
)
def test_a_documented_command_does_what_it_can_on_this_machine(
    line,
    world,
    plugins,
    monkeypatch,
    tmp_path,
):
    monkeypatch.chdir(world)
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path))
    words = shlex.split(line, comments=True)
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    assert words[0] == "sentbed"
    invocation = understood(words[1:], plugins)
    assert invocation is not None
    command, parameters = invocation
    if command in RECIPE_COMMANDS or command == "reproduce":
        _load(command, parameters, world, plugins)
        return
    output = Path("vectors")
    shutil.rmtree(output, ignore_errors=True)
    Path("mined.jsonl").unlink(missing_ok=True)
    if command == "new recipe":
        # The recipe of the page, for its other commands, may have its name.
        Path(words[-1]).unlink(missing_ok=True)
    result = CliRunner().invoke(main, words[1:])
    assert result.exit_code == 0, result.output


def test_what_is_exempt_says_why_and_is_still_documented():
    assert len(COMMANDS) > 100
    assert all(len(reason) > 10 for reason in EXEMPT.values())
    assert [
        pattern
        for pattern in EXEMPT
        if not any(re.search(pattern, line) for line in COMMANDS)
    ] == []
