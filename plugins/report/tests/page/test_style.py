"""The style sheet has no rule that no page uses."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import get_args

from sentbed_report.page_template import resource
from sentbed_report.study.study_data import CellStatus

KINDS = ("loading", "mark", "met", "unmet", "none", "better", "worse", "degenerate")
"""Classes of numbers and marks, which `expected_kind`, `estimate.py` and `html.py` give them."""


def classes_in_sources():
    """Classes that templates, modules and scripts write."""
    classes = set()
    for distribution in ("sentbed_report", "sentbed_studies"):
        for path in Path(str(files(distribution))).rglob("*"):
            if path.suffix not in (".py", ".j2", ".js"):
                continue
            text = path.read_text(encoding="utf-8")
            for expression in re.findall(
                r'class(?:Name)? ?= ?"((?:\{\{.*?\}\}|[^"])*)"', text
            ):
                classes.update(re.findall(r"[\w-]+", expression))
    return classes


def test_every_class_of_the_style_sheet_is_one_that_a_page_has():
    sheet = re.sub(
        r"/\*.*?\*/", "", resource("sentbed_report.page", "style.css"), flags=re.DOTALL
    )
    selectors = re.sub(r"\{[^{}]*\}", "{}", sheet)
    styled = set(re.findall(r"\.([a-zA-Z][\w-]*)", selectors))
    assert len(styled) > 40
    states = {f"state-{status}" for status in get_args(CellStatus)} | set(
        get_args(CellStatus)
    )
    tones = {"best", "alike", "worse"}
    colours = {f"c{place}" for place in range(6)} | tones
    assert styled - classes_in_sources() - states - colours - set(KINDS) == set()
