"""What is printed and written controls no terminal, whatever it is made of."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
import tomli
import tomli_w
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sentbed._cli.main import main
from sentbed._files import write_atomic
from sentbed.errors import SentbedError, printable

ROOT = Path(__file__).parents[2]
ANY = st.text(alphabet=st.characters(codec=None), max_size=40)


def _controls(text):
    """Return the characters that are controls by Unicode's categories, but for tab and line feed."""
    kinds = {"Cc", "Cs"}
    marks = {
        "\u061c",
        "\u200e",
        "\u200f",
        *map(chr, range(0x202A, 0x202F)),
        *map(chr, range(0x2066, 0x206A)),
    }
    return [
        c
        for c in text
        if c not in "\t\n" and (unicodedata.category(c) in kinds or c in marks)
    ]


@given(ANY)
def test_nothing_printable_controls_a_terminal(text):
    shown = printable(text)
    assert _controls(shown) == []
    assert printable(shown) == shown
    shown.encode()
    if not _controls(text):
        assert shown == text


@given(ANY)
def test_a_text_within_json_stays_the_same(text):
    written = printable(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(written) == {text: [text]}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_text_within_toml_stays_the_same(text):
    assert tomli.loads(printable(tomli_w.dumps({"a": text}))) == {"a": text}


def test_a_text_is_written_without_controls_and_bytes_as_they_are(tmp_path):
    write_atomic(tmp_path / "a", "\x9b31m\x1b[2J\ud800 é\n")
    assert (tmp_path / "a").read_text("utf-8") == "\\u009b31m\\x1b[2J\\ud800 é\n"
    write_atomic(tmp_path / "b", b"\x9b\x00")
    assert (tmp_path / "b").read_bytes() == b"\x9b\x00"


def test_every_command_prints_by_the_one_function():
    sources = [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    assert len(sources) > 300
    printing = [
        path
        for path in sources
        if re.search(r"click\.s?echo|echo_via_pager", path.read_text("utf-8"))
    ]
    assert [path.relative_to(ROOT).as_posix() for path in printing] == [
        "core/src/sentbed/_cli/common.py"
    ]


def test_a_file_whose_removal_fails_too_does_not_hide_why_it_was_not_written(
    tmp_path, monkeypatch
):
    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    monkeypatch.setattr(Path, "replace", lambda *_: read_only())
    with pytest.raises(
        SentbedError, match=r"cannot write `.*a`: Read-only file system"
    ):
        write_atomic(tmp_path / "a", "text")


@pytest.mark.parametrize("command", [["run"], ["check"]])
def test_a_path_of_5000_characters_is_an_error_of_one_sentence(command):
    result = CliRunner().invoke(main, [*command, "a" * 5000])
    assert result.exit_code in (1, 2)
    assert (
        "File name too long" in result.output
        or "is not a run directory" in result.output
    )
    assert "raised" not in result.output
