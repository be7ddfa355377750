from __future__ import annotations

import pytest
from click.testing import CliRunner
from file_server import Served, serving
from sentbed._cli import main as cli
from sentbed_common import KnownData, KnownFile
from sentbed_data import find_collections


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def two_collections(server, monkeypatch):
    """Know `letters`, which can be downloaded, and `stories`, which cannot."""
    letters = KnownData(
        "letters",
        "two letters",
        ("abc",),
        (
            KnownFile("a.txt", rows=1, url=f"{server.url}/a.txt"),
            KnownFile("b.txt", rows=1, sha256=("0" * 64,), optional=True),
        ),
        "https://example.org/letters",
        licence="CC0",
    )
    stories = KnownData(
        "stories",
        "stories",
        ("s",),
        (KnownFile("s.csv"),),
        "https://example.org/s",
        advice="ask for it",
    )
    server.files["/a.txt"] = Served(b"a\n")

    def both(plugins):
        return {"letters": letters, "stories": stories}

    monkeypatch.setattr(find_collections, "collections", both)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    return tmp_path


def data(*arguments):
    return CliRunner().invoke(cli.main, ["data", *map(str, arguments)])


def test_list_has_name_state_and_purpose_of_each(place):
    result = data("list")
    assert result.exit_code == 0
    assert [line.split(maxsplit=2) for line in result.stdout.splitlines()] == [
        ["letters", "missing", "two letters"],
        ["stories", "missing", "stories"],
    ]


def test_list_compares_digests_where_asked(place):
    (place / "abc").mkdir()
    for name in ("a.txt", "b.txt"):
        (place / "abc" / name).write_text("x\n")
    assert "letters  present          two letters" in data("list").stdout
    checked = data("list", "--check").stdout.splitlines()
    assert checked[0].split() == ["letters", "unknown", "digest", "two", "letters"]
    assert checked[1].strip() == "b.txt, of 2 files"


def test_list_and_where_work_without_a_data_directory(monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    result = data("list")
    assert result.exit_code == 0
    assert "SENTBED_DATA is not set" in result.stderr
    assert "letters: missing, $SENTBED_DATA/abc" in data("where", "letters").stdout


def test_where_has_the_place_and_state_of_each_file_and_how_to_get_it(place):
    (place / "abc").mkdir()
    (place / "abc/a.txt").write_text("a\nb\n")
    assert data("where", "letters").stdout.splitlines() == [
        f"letters: wrong row count, {place / 'abc'}",
        "  wrong row count  a.txt  2 rows, expected 1",
        "  missing          b.txt  not needed",
        "  source: https://example.org/letters (CC0)",
        "  `sentbed data get letters` downloads it",
    ]
    assert "  ask for it" in data("where").stdout
    assert data("where", "--dir", place / "elsewhere").stdout.startswith(
        "letters: missing, "
    )


def test_a_directory_may_be_named_from_the_home_directory(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    assert f"letters: missing, {place}/abc" in data("where", "--dir", "~").stdout


def test_get_downloads_to_the_usual_place_and_ends_with_it(place):
    result = data("get", "letters")
    assert (result.exit_code, result.stdout) == (0, f"{place / 'abc'}: present\n")
    assert (place / "abc/a.txt").read_text() == "a\n"
    assert "downloading a.txt (2 bytes)" in result.stderr
    assert "export" not in result.stderr


def test_get_into_another_directory_says_how_it_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    result = data("get", "letters", "--dir", tmp_path / "new")
    assert result.exit_code == 0
    assert f"export SENTBED_DATA={tmp_path / 'new'}" in result.stderr
    assert (tmp_path / "new/abc/a.txt").is_file()


def test_get_needs_a_directory_and_a_known_name(monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    result = data("get", "letters")
    assert result.exit_code == cli.FAILED
    assert "error: no data directory is known; set `SENTBED_DATA`" in result.stderr
    assert "or name it with `--dir`" in result.stderr
    result = data("get", "leters")
    assert result.exit_code == cli.FAILED
    assert "Did you mean `letters`?" in result.stderr


def test_get_says_what_to_do_by_hand(place):
    result = data("get", "stories")
    assert result.exit_code == cli.FAILED
    assert (
        "error: `stories` cannot be downloaded: ask for it; its files belong in"
        in result.stderr
    )


def test_get_fails_where_the_source_gives_something_else(place, server):
    server.files["/a.txt"] = Served(b"a\nb\nc\n")
    result = data("get", "letters")
    assert result.exit_code == cli.FAILED
    assert f"wrong row count: {place / 'abc/a.txt'} 3 rows, expected 1" in result.stderr
    assert "1 of 2 files of `letters` are not what they should be" in result.stderr


def test_get_offline_is_an_error_without_a_traceback(place, server):
    server.files["/a.txt"] = Served(b"a\n", cut=0)
    result = data("get", "letters")
    assert result.exit_code == cli.FAILED
    assert "error: only 0 of 2 bytes of" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["list", "where", "get"])
def test_every_command_says_what_it_does(command):
    result = data(command, "--help")
    assert result.exit_code == 0
    assert "--dir" in result.output
