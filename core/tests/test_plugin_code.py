from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import toy_plugin
from sentbed import Encoder
from sentbed.plugin_code import plugin_of, reason_of, would_offer, written_api
from sentbed.registry import Plugins

Distribute = Callable[[str, Mapping[str, str]], list[EntryPoint]]


def test_a_component_belongs_to_the_distribution_whose_plugin_is_nearest(distribute: Distribute):
    code = "class Part: ...\n"
    distribute("near-dist", {"near_plugin": code})
    distribute("far-dist", {"far_plugin": code})
    import far_plugin  # type: ignore[import-not-found]
    import near_plugin  # type: ignore[import-not-found]

    assert plugin_of(near_plugin.Part) == "near-dist 1.0"
    assert plugin_of(far_plugin.Part) == "far-dist 1.0"
    assert plugin_of(Path) == ""


def test_within_a_namespace_the_longest_common_path_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, entry in (("one", "acme.one.plugin"), ("two", "acme.two")):
        info = tmp_path / f"{name}-3.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1\n")
        (info / "entry_points.txt").write_text(f"[sentbed]\n{name} = {entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module, owner in {
        "acme.one.parts": "one 3.1",
        "acme.two": "two 3.1",
        "acme.two.a.b": "two 3.1",
    }.items():
        assert plugin_of(type("Part", (), {"__module__": module})) == owner


def test_a_score_says_with_which_version_of_the_plugin_it_was_computed(
    installed_toy: Path, recipe_of: Callable[..., object], plugins: Plugins
):
    table = toy_plugin_encoder()
    encoder = Encoder.of(table, {"use": "toy"}, plugins)
    (score, *_) = encoder.evaluate(toy_plugin.Gap(), "e").scores
    assert score.plugin == "toy 1.0"
    assert "plugin" not in score.protocol


def toy_plugin_encoder() -> dict[str, object]:
    import tomli

    encoder: dict[str, object] = tomli.loads(toy_plugin.RECIPE)["encoder"]
    return encoder


def test_source_is_read_and_not_run(distribute: Distribute):
    source = """raise AssertionError("run")
sentbed_api: Final = '4.2'

class A:
    name: ClassVar[str] = "first"

class B:
    name = 'second'

def poolers(): ...
"""
    distribute("d", {"unrun_plugin": source})
    assert written_api("unrun_plugin:thing") == "4.2"
    assert would_offer("unrun_plugin", "poolers", "first")
    assert would_offer("unrun_plugin", "poolers", "second")
    assert not would_offer("unrun_plugin", "poolers", "secon.")
    assert not would_offer("unrun_plugin", "losses", "first")
    assert written_api("a_module_that_is_not_there") is None
    assert not would_offer("", "poolers", "first")


def test_an_error_without_words_is_called_by_its_type():
    assert reason_of(SystemExit()) == "SystemExit"
    assert reason_of(ValueError("too old")) == "ValueError: too old"
