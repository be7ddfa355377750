from __future__ import annotations

import pytest
from sentbed._registry.plugin_compatibility import API_NAME
from sentbed._registry.plugin_source_code import assigned_text, would_offer
from sentbed.errors import reason_of


def test_source_is_read_and_not_run(distribute):
    source = """raise AssertionError("run")
sentbed_api: Final = '4.2'

class A:
    name: ClassVar[str] = "first"

class B:
    name = 'second'

def poolers(): ...
"""
    distribute("d", {"unrun_plugin": source})
    assert assigned_text("unrun_plugin:thing", API_NAME) == "4.2"
    assert would_offer("unrun_plugin", "poolers", "first")
    assert would_offer("unrun_plugin", "poolers", "second")
    assert not would_offer("unrun_plugin", "poolers", "secon.")
    assert not would_offer("unrun_plugin", "losses", "first")
    assert assigned_text("a_module_that_is_not_there", API_NAME) is None
    assert not would_offer("", "poolers", "first")


def test_a_hook_under_another_name_is_known_by_its_specname(distribute):
    source = """@sentbed.hookimpl(specname='poolers')
def mine(): ...

class A:
    name = "first"
"""
    distribute("d", {"other_named_plugin": source})
    assert would_offer("other_named_plugin", "poolers", "first")
    assert not would_offer("other_named_plugin", "losses", "first")


@pytest.mark.parametrize(
    "body", ["return {}", "return dict(MINE)\n\nMINE = {}", "return MORE | {}"]
)
def test_a_hook_that_names_components_lazily_is_known_by_its_keys(body, distribute):
    lazy = "{'first': Lazy('unrun.a:A', 'A.'), **more, name: Lazy('unrun.b:B', 'B.')}"
    distribute(
        "d",
        {
            "lazy_plugin": f"raise AssertionError('run')\ndef poolers():\n    {body.format(lazy)}\n"
        },
    )
    assert would_offer("lazy_plugin", "poolers", "first")
    assert not would_offer("lazy_plugin", "poolers", "second")
    assert not would_offer("lazy_plugin", "losses", "first")


def test_an_error_without_words_is_called_by_its_type():
    assert reason_of(SystemExit()) == "SystemExit"
    assert reason_of(ValueError("too old")) == "ValueError: too old"
