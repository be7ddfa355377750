"""A recipe of any content is refused or read in seconds, and nothing but a file is opened."""

from __future__ import annotations

import json

import pytest
from sentbed import DataError, ModelError, RecipeError
from sentbed._cli.check import _check
from sentbed.errors import (
    Problem,
    SentbedError,
    foreign,
    printable,
)
from toy_plugin import RECIPE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07", "\x1b[2J", "a\rb", "\x9b31m", "\u202eabc"]
)
def test_no_error_controls_the_terminal(text, tmp_path, plugins):
    for error in (
        SentbedError(text),
        DataError(text, f"{text}.txt"),
        RecipeError([Problem(text, path=text)]),
    ):
        assert printable(str(error)) == str(error)
        assert text not in str(error)
    quoted = "".join(f"\\u{ord(c):04x}" for c in text)
    file = tmp_path / "r.toml"
    file.write_text(f'schema = 1\n[run]\nname = "a"\n"{quoted}" = 1\n')
    with pytest.raises(RecipeError, match=r"unknown key .*r.toml:4") as caught:
        _check(str(file), (), plugins, fragments=False)
    assert text not in str(caught.value)


def test_what_a_person_writes_is_shown_as_it_is():
    text = "café — 日本語 \u00a0 \t\n 👩‍💻"
    assert printable(text) == text == str(SentbedError(text))


class Panic(BaseException):
    """As a library in Rust raises."""


@pytest.mark.parametrize(
    "error",
    [
        AssertionError(),
        ZeroDivisionError("x\n y"),
        Panic("p"),
        MemoryError(),
        KeyError("k"),
    ],
)
def test_whatever_another_library_raises_becomes_our_error(error):
    with (
        pytest.raises(ModelError) as caught,
        foreign(ModelError, "`m` cannot be loaded", "help"),
    ):
        raise error
    assert caught.value.__cause__ is error
    assert str(caught.value).startswith(f"`m` cannot be loaded: {type(error).__name__}")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; help")


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), DataError("ours")]
)
def test_our_own_errors_and_an_interruption_pass(error):
    with pytest.raises(type(error)) as caught, foreign(ModelError, "x", "y"):
        raise error
    assert caught.value is error


def test_a_batch_of_all_rows_is_warned_of(tmp_path, run_recipe):
    run_recipe(name="0")
    run_recipe(RECIPE, "stage.0.batch_size=500", name="1")
    warned = [
        json.loads((tmp_path / f"{i}/report.json").read_text())["warnings"]
        for i in range(2)
    ]
    assert warned[0] == []
    (warning,) = warned[1]
    assert "fewer than its `batch_size` of 500: a batch is all rows" in warning
