from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed.tools import read_document
from sentbed_studies import paper_recipe_files
from sentbed_studies.paper_recipe_files import find_papers, papers_in, tables_of
from sentbed_studies.reproduce_command import reproduce as command
from toy_plugin import TOWERS

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "recipes" / "papers"


def files(papers):
    contents = {}
    for path in papers.rglob("*.toml"):
        contents[str(path.relative_to(papers))] = path.read_bytes()
    return contents


def build(source, target, kind):
    """Build a distribution, and unpack it."""
    program = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        kind,
        "-d",
        str(target),
    ]
    subprocess.run(program, cwd=source, check=True, capture_output=True)
    (archive,) = target.iterdir()
    if kind == "wheel":
        zipfile.ZipFile(archive).extractall(target)
        return target
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    return target / archive.name.removesuffix(".tar.gz")


def test_what_is_built_has_the_papers_recipes(tmp_path):
    wheel = build(ROOT / "plugins" / "studies", tmp_path / "wheel", "wheel")
    papers = wheel / "sentbed_studies" / "recipes" / "papers"
    assert files(papers) == files(PAPERS)
    source = build(ROOT / "plugins" / "studies", tmp_path / "sdist", "sdist")
    again = build(source, tmp_path / "again", "wheel")
    assert files(again / "sentbed_studies" / "recipes" / "papers") == files(PAPERS)


def test_the_papers_recipes_need_no_file_beside_them(tmp_path):
    copy = shutil.copytree(PAPERS, tmp_path / "papers")
    tables = []
    for paper in papers_in(PAPERS):
        for file in tables_of(PAPERS, paper).values():
            tables.append(file.relative_to(PAPERS))
    assert len(tables) > 20
    for table in tables:
        assert read_document(copy / table).data == read_document(PAPERS / table).data


def test_papers_are_found_above_the_directory_then_in_what_is_installed(
    tmp_path, monkeypatch
):
    directory, installed = tmp_path / "a" / "b", tmp_path / "installed"
    for place in (directory, installed):
        place.mkdir(parents=True)
    monkeypatch.chdir(directory)
    assert find_papers() == PAPERS
    monkeypatch.setattr(paper_recipe_files, "INSTALLED", installed)
    assert find_papers() == installed
    (tmp_path / "a" / "recipes" / "papers").mkdir(parents=True)
    assert find_papers() == tmp_path / "a" / "recipes" / "papers"


@pytest.mark.slow
def test_a_dry_run_says_what_the_table_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    dry = ["sentence-t5:table-3", "--dry-run", "--only", "pooler=mean"]
    result = CliRunner().invoke(command, dry, catch_exceptions=False)
    assert result.exit_code == 0
    needs = result.output.splitlines()[0]
    assert needs.startswith("It takes the models bert-base-uncased (")
    assert "data that is not here (`sentbed data get senteval`" in needs
    assert not list(tmp_path.iterdir())


PUBLISHED = """
[study]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
[study.expected."Table 1"]
tolerance = {tolerance}
cells = {{ "0.5" = {{ across = 1.0 }}, "0.25" = {{ across = 1.0 }} }}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("installed_toy", "quick")
@pytest.mark.parametrize(("tolerance", "code"), [(1e9, 0), (1e-9, 1)])
def test_a_table_is_run_and_its_numbers_decide_the_exit_code(
    put, tmp_path, tolerance, code
):
    put("papers/toy/table-1.toml", TOWERS + PUBLISHED.format(tolerance=tolerance))
    words = ["toy:table-1", "--only", "lr=0.5", "--out", str(tmp_path / "out")]
    words += ["--recipes", str(tmp_path / "papers")]
    result = CliRunner().invoke(command, words, catch_exceptions=False)

    assert result.exit_code == code, result.output
    assert f"{1 - code} of 1 expected number met" in result.output
    assert "0.25" not in result.stdout
