"""The check of style: what each figure counts, and ceilings that only fall."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import style_check

ROOT = Path(__file__).parent.parent

PLACES = [
    ("nested-comprehensions", "x = [[a for a in b] for b in c]"),
    ("nested-comprehensions", "x = [a for a in b if a if a > 1]"),
    ("nested-conditionals", "f(a if b else c)"),
    ("nested-conditionals", "x = [a if b else c for a in d]"),
    ("nested-conditionals", "x = a if b else (c if d else e)"),
    ("truth-arithmetic", "x = a + (b > 1)"),
    ("truth-arithmetic", "x *= not a"),
    ("walruses", "x = f(a := 1)"),
    ("walruses", "if any((a := b) for b in c): pass"),
    ("long-statements", "x = [" + "a, " * 40 + "]"),
]

PLAIN = [
    "x = a if b else c",
    "x = [f(a) for a in b if a]",
    "while chunk := read(): pass",
    "if a and (b := c): pass",
    "x = a + b",
    "x = not a",
    '"""A docstring, however long."""',
]


def figures(tmp_path, code):
    (tmp_path / "module.py").write_text(code, "utf-8")
    measured = style_check.Figures()
    measured.add(style_check.Module(tmp_path / "module.py"))
    return measured.values()


@pytest.mark.parametrize(("figure", "code"), PLACES)
def test_a_place_is_counted_once(tmp_path, figure, code):
    values = figures(tmp_path, code + "\n")

    assert values[figure] == 1
    rules = {name for name, _ in PLACES} - {figure}
    assert [values[rule] for rule in rules] == [0] * len(rules)


@pytest.mark.parametrize("code", PLAIN)
def test_plain_code_breaks_no_rule(tmp_path, code):
    values = figures(tmp_path, code + "\n")

    assert {values[rule] for rule, _ in PLACES} == {0}


def test_figures_are_those_counted_by_hand(tmp_path):
    # Module, Assign, Name, Store, IfExp, three Names with Load: 10 nodes; the docstring is none.
    values = figures(tmp_path, '"""Say what."""\nfound = a if b else c\n')

    assert values["nodes-a-line"] == 5.5
    assert values["vague-names"] == 500
    assert values["conditional-expressions"] == 500
    assert values["comprehensions"] == 0
    assert values["statement-nodes"] == 10


def test_ceilings_only_fall(tmp_path):
    (tmp_path / "module.py").write_text("f(a if b else c)\n", "utf-8")
    measured = style_check.Figures()
    measured.add(style_check.Module(tmp_path / "module.py"))
    ceilings = {"core": dict.fromkeys(style_check.GOALS, 900.0)}
    ceilings["core"]["nested-conditionals"] = 0

    lowered = style_check.lowered({"core": measured}, ceilings)

    # Above the ceiling: it stays, and the check names the place.
    assert lowered["core"]["nested-conditionals"] == 0
    assert lowered["core"]["long-statements"] == 0
    assert lowered["core"]["comprehensions"] == style_check.GOALS["comprehensions"]
    problems = list(style_check.problems({"core": measured}, lowered))
    assert f"    {tmp_path / 'module.py'}:1" in problems
    assert "core: nested-conditionals is 1, above its ceiling 0" in problems


def test_a_new_room_has_the_goals_as_its_ceilings(tmp_path):
    (tmp_path / "module.py").write_text("x = 1 + (a > b)\n", "utf-8")
    measured = style_check.Figures()
    measured.add(style_check.Module(tmp_path / "module.py"))

    problems = list(style_check.problems({"plugins/new": measured}, {}))

    assert "plugins/new: truth-arithmetic is 1, above its ceiling 0" in problems


def test_every_room_has_ceilings():
    names = set(style_check.rooms(ROOT))
    assert {"core", "core/tests", "plugins/data", "plugins/data/tests"} <= names
    assert {"tests", "tools", "benchmarks"} <= names
    assert set(style_check.read_ceilings()) == names


def test_ceilings_written_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(style_check, "CEILINGS", tmp_path / "ceilings.toml")
    tables = {"plugins/data": dict(style_check.GOALS)}

    assert style_check.read_ceilings() == {}
    style_check.write_ceilings(tables)

    assert style_check.read_ceilings() == tables
