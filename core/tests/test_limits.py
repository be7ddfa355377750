"""A recipe of any content is refused or read in seconds, and nothing but a file is opened."""

from __future__ import annotations

import json
import os
import re
import time

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st
from sentbed import DataError, ModelError, RecipeError
from sentbed._cli.check import _check
from sentbed._document.toml import DEEPEST, MOST_KEYS, parse
from sentbed._files import open_file, read_file, sha256
from sentbed.errors import (
    ALIKE,
    LONGEST_MESSAGE,
    Problem,
    SentbedError,
    foreign,
    printable,
)
from toy_plugin import RECIPE

pytestmark = pytest.mark.slow

SIZE = 900_000
KEYS = MOST_KEYS - 100

HOSTILE = {
    "keys": "\n".join(f"k{i} = 1" for i in range(SIZE // 10)),
    "unknown keys": "schema = 1\n" + "\n".join(f"k{i} = 1" for i in range(KEYS)),
    "stages": "schema = 1\n" + "[[stage]]\n" * KEYS,
    "empty lines": "\n" * SIZE + "a = 1",
    "comments": "#\n" * (SIZE // 2),
    "an array": "a = [" + "0," * (SIZE // 2) + "]",
    "tables in each other": "\n".join(
        "[" + ".".join([f"a{i}"] * 300) + "]" for i in range(500)
    ),
    "arrays in each other": "a = " + "[" * 300 + "]" * 300,
    "a dotted key": "a." * 900 + "a = 1",
    "dotted keys": "\n".join(
        f"a{i}" + ".b" * 500 + " = 1" for i in range(SIZE // 1010)
    ),
    "a string": 'schema = 1\n[run]\nname = "' + "x" * SIZE + '"',
    "a string in an array": 'schema = 1\n[run]\nname = ["' + "x" * SIZE + '"]',
    "a number": "a = 0x" + "f" * SIZE,
    "an open bracket": "[" * SIZE,
    "bases": "schema = 1\nextends = [" + "'r.toml'," * KEYS + "]",
    "ten megabytes": "a" * 10_000_000,
}


@pytest.mark.sweep(8)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_recipe_is_refused_in_seconds_and_in_few_words(
    name, tmp_path, plugins
):
    file = tmp_path / "r.toml"
    file.write_text(HOSTILE[name])
    start = time.process_time()
    with pytest.raises(RecipeError) as caught:
        _check(str(file), (), plugins, fragments=False)
    assert time.process_time() - start < 5
    assert len(str(caught.value)) < 10 * LONGEST_MESSAGE
    assert str(file) in str(caught.value)


def test_bases_of_many_keys_are_merged_in_seconds(tmp_path):
    from sentbed._document.extends import extend

    base = tmp_path / "base.toml"
    base.write_text("[run]\n" + "\n".join(f"k{i} = 1" for i in range(KEYS)))
    over = "extends = 'base.toml'\n[run]\n" + "\n".join(
        f"k{i} = [2]" for i in range(0, KEYS, 3)
    )
    start = time.process_time()
    document = extend(over.encode(), str(tmp_path / "over.toml"), 1)
    assert time.process_time() - start < 3
    assert document.data["run"]["k3"] == [2]
    assert document.data["run"]["k4"] == 1
    assert document.place(("run", "k3", 0)) == (str(tmp_path / "over.toml"), 4)
    assert document.place(("run", "k4")) == (str(base), 6)


def test_levels_are_counted_in_tables_keys_and_arrays():
    deep = ".".join("abcdefgh" * 4)
    assert len(parse(f"{deep} = 1".encode()).places) == DEEPEST
    for text in (
        f"{deep}.x = 1",
        f"[{deep}]\nx = 1",
        f"{deep} = [1]",
        f"{deep} = {{ x = 1 }}",
    ):
        with pytest.raises(RecipeError, match="more than 32 levels") as caught:
            parse(text.encode(), "r.toml")
        assert caught.value.problems[0].line == text.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        "[A]",
        "[[ A ]]",
        "A = 1",
        "b = { A = 1 }",
        "b = [\n{ c = 1, A = 1 }]",
        "b = 1 # A\nc = {A=1}",
        'b = """\n"A"\n\\""""\nA = 1',
    ],
)
def test_a_key_of_too_many_parts_is_refused_before_its_file_is_parsed(
    text, monkeypatch
):
    monkeypatch.setattr("tomli.loads", None)  # its time is quadratic in the parts
    long_key = ".".join(["a-1", ' "b c" ', "\t'd'"] * 11)
    text = text.replace("A", long_key)
    with pytest.raises(RecipeError, match="more than 32 levels") as caught:
        parse(text.encode(), "r.toml")
    assert caught.value.problems[0].line == text.count("\n") + 1


@pytest.mark.parametrize("sign", ['"', "'", '"""', "'''"])
def test_dots_in_texts_and_comments_are_no_key(sign):
    dots = ".".join("a" * 100)
    document = parse(
        f"a = {sign}{dots}{sign} # {dots}\n'{dots}' = 0.5\nb.c = 1979-05-27\n".encode()
    )
    assert document.data["a"] == dots
    assert document.data[dots] == 0.5


@given(st.text(alphabet="ab.\"'\\#=[]{} \n", max_size=60))
def test_no_text_that_is_toml_has_a_long_key_that_its_levels_do_not_show(part):
    text = (part * 40)[:400]
    try:
        parse(text.encode())
    except RecipeError as error:
        if "the key" not in str(error):
            return
        try:
            data = tomli.loads(text)
        except (ValueError, RecursionError):
            return
        assert levels(data) > DEEPEST


def levels(value):
    """Return the number of tables and arrays in one another."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 0
    return 1 + max(map(levels, value), default=0)


@pytest.mark.parametrize(
    "value", ["9223372036854775808", "-9223372036854775809", "0xffffffffffffffffff"]
)
@pytest.mark.parametrize("key", ["run.seed", "checkpoint.every"])
def test_a_whole_number_has_64_bits(key, value, tmp_path, plugins):
    file = tmp_path / "r.toml"
    file.write_text(f"schema = 1\nrun.name = 'a'\n{key} = {value}\n")
    with pytest.raises(RecipeError, match=f"more than 64 bits.*r.toml:3 {key}"):
        _check(str(file), (), plugins, fragments=False)


def test_problems_that_are_alike_are_counted_and_others_stay():
    alike = [Problem(f"unknown key `k{i}`", line=i) for i in range(100)]
    error = RecipeError([*alike, Problem("the stage has neither")])
    shown = str(error).splitlines()
    assert shown[0] == "101 problems in the recipe:"
    assert sum("unknown key" in line for line in shown) == ALIKE
    assert shown[-2:] == [
        "  the stage has neither",
        f"  and {100 - ALIKE} more like these",
    ]
    assert len(error.problems) == 101


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
    with pytest.raises(RecipeError, match=r"control characters.*r.toml:4") as caught:
        _check(str(file), (), plugins, fragments=False)
    assert text not in str(caught.value)


def test_what_a_person_writes_is_shown_as_it_is():
    text = "café — 日本語 \u00a0 \t\n 👩‍💻"
    assert printable(text) == text == str(SentbedError(text))


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    return tmp_path / "pipe.toml"


@pytest.mark.parametrize("read", [open_file, read_file, sha256])
def test_a_pipe_is_never_opened(read, pipe):
    with pytest.raises(
        DataError, match=f"is a pipe or a device.*{re.escape(str(pipe))}"
    ):
        read(pipe)


def test_a_recipe_and_its_bases_are_files(pipe, plugins):
    with pytest.raises(RecipeError, match="is a pipe or a device"):
        _check(str(pipe), (), plugins, fragments=False)
    over = pipe.with_name("over.toml")
    over.write_text("schema = 1\nextends = 'pipe.toml'")
    with pytest.raises(RecipeError, match=r"is a pipe or a device.*over.toml:2"):
        _check(str(over), (), plugins, fragments=False)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"x" * 10)
    assert read_file(file, 10) == b"x" * 10
    with pytest.raises(DataError, match=r"more than 9 bytes.*/a$"):
        read_file(file, 9)


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
