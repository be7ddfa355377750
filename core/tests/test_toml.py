from __future__ import annotations

import re
import string
import time
from pathlib import Path

import pytest
import tomli
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from sentbed import RecipeError
from sentbed._document.overrides import apply_overrides
from sentbed._document.toml import Document, Located, dotted, parse, unlocated

Q3, A3 = '"""', "'''"


def lines(text):
    """The line of every key: `a:1 a.b:2`."""
    places = parse(text.encode()).places.items()
    return " ".join(f"{dotted(path)}:{line}" for path, (_, line) in places)


def paths(value, path=()):
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


LINES = {
    "tables": ("a = 1\n\n[t]\nb = 2\n[t.u]\nc = 3\n", "a:1 t:3 t.b:4 t.u:5 t.u.c:6"),
    "arrays of tables": (
        "[[s]]\na = 1\n[[s]]\na = 2\n[s.sub]\nb = 1\n[[s.sub2]]\nc = 1\n[[s.sub2]]\nc = 2\n",
        "s:1 s.0:1 s.0.a:2 s.1:3 s.1.a:4 s.1.sub:5 s.1.sub.b:6 s.1.sub2:7 s.1.sub2.0:7 s.1.sub2.0.c:8 "
        "s.1.sub2.1:9 s.1.sub2.1.c:10",
    ),
    "arrays of tables below two elements": (
        "[[s]]\n[[s.t]]\na = 1\n[[s]]\n[[s.t]]\na = 2\n",
        "s:1 s.0:1 s.0.t:2 s.0.t.0:2 s.0.t.0.a:3 s.1:4 s.1.t:5 s.1.t.0:5 s.1.t.0.a:6",
    ),
    "dotted keys": ("x = 1\na . b.c = 2\na.d = 3\n", "x:1 a:2 a.b:2 a.b.c:2 a.d:3"),
    "inline tables": (
        'a = { b = 1, c.d = [ 2, { e = "}" } ] }\nf = 1',
        "a:1 a.b:1 a.c:1 a.c.d:1 a.c.d.0:1 a.c.d.1:1 a.c.d.1.e:1 f:2",
    ),
    "arrays over several lines": (
        "a = [\n  1, # one ] \n\n  2,\n  [3,\n   4],\n]\nb = 1",
        "a:1 a.0:2 a.1:4 a.2:5 a.2.0:5 a.2.1:6 b:8",
    ),
    "comments": (
        "# [no]\na = 1 # b = 2\n[t] # [u]\n# c = 1\nd = 4 # end",
        "a:2 t:3 t.d:5",
    ),
    "CRLF": (
        f"a = 1\r\n\r\n[t]\r\nb = {Q3}x\r\ny{Q3}\r\nc = [\r\n1,\r\n2]\r\n",
        "a:1 t:3 t.b:4 t.c:6 t.c.0:7 t.c.1:8",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_keys_and_elements_have_the_line_on_which_they_stand(name):
    text, expected = LINES[name]
    assert lines(text) == expected


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ('"with space"', "with space"),
        ("'a.b'", "a.b"),
        (r'"tab\tquote\""', 'tab\tquote"'),
        (r"'back\slash'", r"back\slash"),
        (r'"\u00e9"', "é"),
        ('"="', "="),
        ('"[x]"', "[x]"),
        ('"#"', "#"),
        ('""', ""),
    ],
)
def test_a_quoted_key_is_found_under_the_name_it_spells(written, key):
    document = parse(f"\n{written} = 1\n[t.{written}]\nk = 2".encode())
    expected = {(key,): 2, ("t",): 3, ("t", key): 3, ("t", key, "k"): 4}
    assert document.places == {path: (None, line) for path, line in expected.items()}


@pytest.mark.parametrize(
    "value",
    [
        '"one ] # = { \\" line"',
        "'one ] # = { \\'",
        f'{Q3}\n]\n# no comment\n[t]\nx = 1 \\"{Q3}',
        f"{A3}\n]\n# no comment\n[t]\nx = 1 \\{A3}",
        f'{Q3}ends in two quotes""{Q3}',
        f"{A3}ends in two quotes''{A3}",
        f'{Q3}a "" b "quoted" \\\\{Q3}',
        f'{Q3}escaped \\"{Q3[:2]}\n{Q3}',
        f"{Q3}{Q3}",
        f"{A3}{A3}",
        '""',
        "''",
        f"{Q3}\\\n   continued{Q3}",
    ],
)
def test_brackets_hashes_and_headers_inside_strings_are_text(value):
    text = f"a = {value}\nb = [{value}, 2]\n[t]\nc = 1\n"
    tomli.loads(text)
    inner = value.count("\n")
    assert lines(text) == (
        f"a:1 b:{2 + inner} b.0:{2 + inner} b.1:{2 + 2 * inner} t:{3 + 2 * inner} t.c:{4 + 2 * inner}"
    )


@pytest.mark.parametrize(
    "value",
    [
        "1979-05-27T07:32:00Z",
        "1979-05-27 07:32:00",
        "-1.5e-3",
        "inf",
        "0xff",
        "true",
        "1_000",
    ],
)
def test_scalars_of_every_kind_end_where_they_end(value):
    text = f"a = {value} # x\nb = [{value},{value}]\nc = {{d = {value}}}\ne={value}"
    assert lines(text) == "a:1 b:2 b.0:2 b.1:2 c:3 c.d:3 e:4"


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    document = parse(b"\xef\xbb\xbfa = 1\nb = 2")
    assert document.data == {"a": 1, "b": 2}
    assert document.places == {("a",): (None, 1), ("b",): (None, 2)}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "   \t"])
def test_a_document_without_keys_has_no_lines(text):
    document = parse(text.encode())
    assert (document.data, document.places) == ({}, {})


def test_a_path_that_is_not_in_the_file_has_the_line_of_its_nearest_parent():
    document = parse(b"\n[a.b]\nc = 1\n", "x.toml")
    assert document.place(("a", "b", "c"))[1] == 3
    assert document.place(("a", "b", "missing", 0))[1] == 2
    assert document.place(("z",))[1] is None
    assert document.place(())[1] is None


def test_a_problem_says_file_line_and_dotted_path():
    document = parse(b"[[stage]]\n[[stage]]\nloss = { t = 1 }\n", "my/recipe.toml")
    problem = document.problem("too low", ("stage", 1, "loss", "t"))
    assert str(problem) == "too low @ my/recipe.toml:3 stage.1.loss.t"


def test_a_key_of_another_file_is_placed_there():
    document = Document(
        {}, "top.toml", {("a",): ("top.toml", 1), ("a", "b"): ("base.toml", 7)}
    )
    assert document.place(("a", "b", "c")) == ("base.toml", 7)
    assert document.place(("a", "x")) == ("top.toml", 1)
    assert document.place(("z",)) == ("top.toml", None)
    assert str(document.problem("wrong", ("a", "b"))) == "wrong @ base.toml:7 a.b"


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("stage.nli.loss", ("stage", 1, "loss")),
        ("stage.1.loss", ("stage", 1, "loss")),
        ("stage.9.loss", ("stage", 9, "loss")),
        ("stage.none.loss", ("stage", "none", "loss")),
        ("run.name", ("run", "name")),
        ("run.name.deeper.0", ("run", "name", "deeper", "0")),
        ("nowhere", ("nowhere",)),
    ],
)
def test_a_path_finds_elements_by_number_or_name(written, path):
    document = parse(b'run.name = "r"\n[[stage]]\n[[stage]]\nname = "nli"\nloss = 1')
    assert document.key_path(written) == path


def test_a_located_string_is_unlocated_and_other_values_stay():
    text = unlocated(Located("x", Path("/there")))
    assert (text, type(text)) == ("x", str)
    values = [1, None, ["x"], "y"]
    assert [unlocated(value) for value in values] == values


def test_bytes_that_are_not_utf8_are_reported_with_their_line():
    with pytest.raises(RecipeError) as caught:
        parse(b"a = 1\nb = 'caf\xe9'\n", "r.toml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("r.toml", 2)
    assert "found the byte 0xe9, expected UTF-8; save the file as UTF-8" in str(problem)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = \nc = 2\n", 2),
        ("a = 1\na = 2\n", 2),
        ("[t]\n\n[t]\n", 3),
        ("a = 1\nfree text\n", 2),
    ],
)
def test_what_is_not_toml_is_reported_with_its_line(text, line):
    with pytest.raises(RecipeError, match="this is not TOML") as caught:
        parse(text.encode(), "r.toml")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("r.toml", line)


@pytest.mark.parametrize(
    "text",
    ["a = 1\n\nb = [1,\n2", "x = 1\n\n\ny = { a = 1", f"a = {Q3}never\n\n\nclosed"],
)
def test_what_is_never_closed_is_reported_at_the_end_of_the_document(text):
    with pytest.raises(RecipeError, match="this is not TOML") as caught:
        parse(text.encode())
    assert caught.value.problems[0].line == 4


def test_a_broken_document_with_crlf_names_the_same_line_as_with_lf():
    lines = []
    for text in ("a = 1\nb = ?\n", "a = 1\r\nb = ?\r\n"):
        with pytest.raises(RecipeError) as caught:
            parse(text.encode())
        lines.append(caught.value.problems[0].line)
    assert lines == [2, 2]


KEYS = st.text(
    st.sampled_from(string.ascii_letters + "0_-. #[]\"'=é\\\n"), min_size=1, max_size=6
)
SCALARS = (
    st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=12
    )
    | st.dates()
    | st.sampled_from(["]", "# x", '"""', "'''", "\\", "a\nb", "[t]\nk = 1"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.booleans(), st.booleans())
def test_every_key_that_tomli_reads_has_a_line_that_holds_it(data, multiline, windows):
    text = tomli_w.dumps(data, multiline_strings=multiline)
    document = parse((text.replace("\n", "\r\n") if windows else text).encode())
    assert document.data == tomli.loads(text)
    assert set(document.places) == set(paths(document.data))
    written = text.split("\n")
    for path, (_, line) in document.places.items():
        if isinstance(path[-1], str):
            key = path[-1]
            spellings = {
                key,
                *tomli_w.dumps({key: 0}).removesuffix(" = 0\n").split("\n"),
            }
            assert any(spelling in written[line - 1] for spelling in spellings), (
                path,
                line,
            )


def test_an_element_that_is_taken_out_leaves_the_others_their_lines():
    text = b'[[stage]]\nname = "a"\nsteps = 1\n[[stage]]\nname = "b"\nsteps = 2\n[[stage]]\nname = "c"\n'
    document = apply_overrides(parse(text), ["stage.b=false", "stage.0.steps=3"])
    assert [stage["name"] for stage in document.data["stage"]] == ["a", "c"]
    assert document.place(("stage", 0, "steps")) == ("--set", None)
    assert document.place(("stage", 0, "name"))[1] == 2
    assert document.place(("stage", 1, "name"))[1] == 8
    assert ("stage", 2) not in document.places


@pytest.mark.parametrize(
    ("later", "names"),
    [
        ("stage=[]", []),
        ('stage=[{ name = "c" }]', ["c"]),
        ('stage.a={ name = "c" }', ["c", "b"]),
        ("stage.a=", ["b"]),
    ],
)
def test_what_replaces_an_array_or_an_element_takes_back_an_earlier_removal(
    later, names
):
    text = b'[[stage]]\nname = "a"\n[[stage]]\nname = "b"\n'
    document = apply_overrides(parse(text), ["stage.0=", later])
    assert [stage["name"] for stage in document.data["stage"]] == names


def test_numbers_of_elements_are_those_of_the_file_although_one_is_taken_out():
    text = b'[[stage]]\nname = "a"\n[[stage]]\nname = "b"\n[[stage]]\nname = "c"\n'
    document = apply_overrides(
        parse(text), ["stage.0=false", "stage.1.steps=9", "stage.2="]
    )
    assert document.data["stage"] == [{"name": "b", "steps": 9}]


def test_of_many_elements_the_ones_that_are_named_are_taken_out():
    text = "".join(f'[[stage]]\nname = "s{number}"\n' for number in range(12))
    document = apply_overrides(parse(text.encode()), ["stage.9=", "stage.10="])
    names = [stage["name"] for stage in document.data["stage"]]
    assert names == [f"s{number}" for number in (*range(9), 11)]


@pytest.mark.parametrize(
    ("names", "index", "shown"),
    [
        (["nli", "qa"], 1, "qa"),
        (["nli", "nli"], 0, "nli"),
        (["nli", "nli"], 1, "1"),
        (["a.b"], 0, "0"),
        (["1", "x"], 0, "0"),
        ([3, None, ""], 1, "1"),
        (["x"], 7, "7"),
    ],
)
def test_the_path_of_a_problem_is_the_one_that_an_override_takes(names, index, shown):
    document = Document({"stage": [{"name": name} for name in names]})
    path = document.problem("wrong", ("stage", index, "loss")).path
    assert path == f"stage.{shown}.loss"
    assert document.key_path(path) == ("stage", index, "loss")


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("runtime = { use = cpu }", 'use = "cpu"'),
        (
            'data = { use = "pairs", path = ../my pairs.tsv, limit = 3 }',
            'path = "../my pairs.tsv"',
        ),
        ('tasks = ["STSB", SICKR]', '"SICKR"'),
        ("name = mine", 'name = "mine"'),
        ("use = info-nce # a loss", 'use = "info-nce"'),
        ("path = ./a/b.csv", 'path = "./a/b.csv"'),
        ("a.b = two words", 'a.b = "two words"'),
    ],
)
def test_a_text_without_quotes_is_shown_with_them(line, written):
    with pytest.raises(
        RecipeError,
        match=re.escape(f"; a text is written in quotes: `{written}` @ a.toml:2"),
    ):
        parse(f"[run]\n{line}\nb = 1\n".encode(), "a.toml")


@pytest.mark.parametrize("before", ["a", ".", " ", "=", "a ", "a=", '"", ', "é"])
def test_a_fault_at_the_end_of_a_long_line_is_found_at_once(before):
    line = f"a = [{before * 200_000}, bad]"
    start = time.process_time()
    with pytest.raises(RecipeError):
        parse(line.encode(), "a.toml")
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("header = False", "TOML writes it in small letters: `header = false`"),
        (
            "head = { normalize = True }",
            "TOML writes it in small letters: `normalize = true`",
        ),
        ("lr = .5", "a number has a digit before its point: `lr = 0.5`"),
        ("values = [0.1, .5e-3]", "a number has a digit before its point: `0.5e-3`"),
    ],
)
def test_a_value_of_python_is_shown_as_toml_has_it(line, advice):
    # With the line ends of Windows, which the parser counts as one character.
    with pytest.raises(RecipeError) as caught:
        parse(f"[run]\r\n{line}\r\n".encode(), "a.toml")
    assert str(caught.value).endswith(f"; {advice} @ a.toml:2")


@pytest.mark.parametrize(
    "line",
    [
        "a = [1, 2",
        'a = "open',
        "a = 1.2.3",
        "a = {b = ?}",
        "= 3",
        "a = {b = c = 3}",
        'a = "b" c',
    ],
)
def test_what_quotes_would_not_mend_gets_no_such_advice(line):
    with pytest.raises(RecipeError) as caught:
        parse(line.encode(), "a.toml")
    assert "quotes" not in str(caught.value)
