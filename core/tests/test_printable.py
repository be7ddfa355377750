"""What is printed and written controls no terminal, whatever it is made of."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from sentbed._files import write_atomic
from sentbed.errors import printable

ROOT = Path(__file__).parents[2]
ANY = st.text(alphabet=st.characters(codec=None), max_size=40)


def _controls(text):
    """Return the characters that are controls by Unicode's categories, but for tab and line feed."""
    controls = []
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n":
            controls.append(character)
    return controls


@given(ANY)
def test_nothing_printable_controls_a_terminal(text):
    shown = printable(text)
    assert _controls(shown) == []
    assert printable(shown) == shown
    shown.encode()
    if text.isprintable():
        assert shown == text


@given(ANY)
def test_a_text_within_json_stays_the_same(text):
    written = printable(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(written) == {text: [text]}


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
