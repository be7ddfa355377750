"""What holds of every page: it loads nothing, runs only its own scripts, and reads no text as markup."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html.parser import HTMLParser

import attrs
import pytest
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import page_html
from sentbed_report.page.sections import Section
from sentbed_report.run_page.run_page import run_page
from sentbed_report.tables.markdown import escape, fenced
from toy_run_report import EMPTY, full, hostile, stage


class Elements(HTMLParser):
    """Tags, ids, scripts and addresses of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.ids = []
        self.scripts = []
        self.addresses = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attributes = {name: value or "" for name, value in attrs}
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            if name in ("src", "href", "xlink:href", "action", "srcset", "data"):
                self.addresses.append(value)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if "http-equiv" in attributes:
            self.policy = attributes["content"]

    def handle_data(self, data):
        if self.tags[-1:] == ["script"] and data.strip():
            self.scripts.append(data)


DATA = {"full": full(), "hostile": hostile(), "empty": EMPTY}


@cache
def page_of(name):
    return page_html(run_page(DATA[name]))


@pytest.mark.parametrize("name", DATA)
def test_a_page_loads_nothing(name):
    text = page_of(name)
    addresses = Elements(text).addresses
    assert all(address.startswith(("#", "data:")) for address in addresses), addresses
    assert re.findall(r"url\([^#]", text) == []
    assert "@import" not in text
    assert not re.search("https?://", text)


def test_the_policy_of_a_page_lets_its_own_scripts_run_and_nothing_else():
    page = Elements(page_of("hostile"))
    hashes = []
    for script in page.scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        hashes.append(f"'sha256-{digest}'")
    directives = [directive.split() for directive in page.policy.split(";")]
    assert directives == [
        ["default-src", "'none'"],
        ["style-src", "'unsafe-inline'"],
        ["script-src", *hashes],
        ["img-src", "data:"],
        ["base-uri", "'none'"],
        ["form-action", "'none'"],
    ]


def test_no_text_of_a_page_is_read_as_markup():
    text = page_of("hostile")
    assert Elements(text).tags.count("script") == 2
    assert "alert" not in text.replace("&lt;script&gt;alert", "")
    assert text.count("&lt;script&gt;alert") > 20


def test_no_text_of_markdown_is_read_as_markup():
    data = attrs.evolve(hostile(), error=None, recipe_toml="", manifest={})
    lines = page_markdown(run_page(data)).splitlines()
    assert [line for line in lines if re.search(r"(?<!\\)<", line)] == []
    widths = []
    for line in lines:
        # An unescaped pipe would make a column.
        width = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        if width is not None and widths and widths[-1] is not None:
            assert width == widths[-1], line
        widths.append(width)
    assert len(set(widths)) > 3


def test_sections_of_one_title_or_of_the_page_s_own_ids_have_ids_of_their_own():
    titles = ("Scores", "Scores", "Tip", "Scores 2", "")
    page = attrs.evolve(run_page(EMPTY), sections=tuple(map(Section, titles)))
    assert [anchor for anchor, _ in page.anchored] == [
        "scores",
        "scores-2",
        "tip-2",
        "scores-2-2",
        "section",
    ]
    ids = Elements(page_html(page)).ids
    assert len(ids) == len(set(ids))


def test_ids_are_unique_and_references_within_the_page_lead_somewhere():
    data = attrs.evolve(full(), stages=(stage(), stage(name="again")))
    text = page_html(run_page(data))
    ids = Elements(text).ids
    assert len(ids) == len(set(ids))
    references = set(re.findall(r"(?:url\(#|href=\"#|labelledby=\")([^)\"]+)", text))
    assert len(references) > 3
    assert references <= set(ids)


def test_a_page_is_the_same_each_time_and_its_headers_say_what_they_are_of():
    text = page_of("full")
    assert page_html(run_page(full())) == text
    headers = re.findall(r"<th(?:\s[^>]*)?>", text)
    assert len(headers) > 10
    assert all('scope="' in header for header in headers)
    assert "#0101" not in text, "a sentinel colour is left"


def test_text_is_escaped_for_markdown():
    assert escape("a|b\n*c* `d` <e> [f](g) __h__ snake_case") == (
        r"a\|b \*c\* \`d\` \<e\> \[f\](g) \_\_h\_\_ snake_case"
    )
    assert fenced("```\nend") == "````text\n```\nend\n````"
