"""Where a run works and with whom is its caller's, whatever the directory says that it is read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import attrs
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import FilePath, hookimpl, resume, run
from sentbed._document.toml import Document
from sentbed._encoder.encoder import saved_recipe
from sentbed._recipe.machine_settings import (
    holds_free_text,
    left_out_sentence,
    machine_settings,
    without_machine_settings,
)
from sentbed._registry.registry import load_plugins
from sentbed._run.resume import own_recipe
from sentbed.protocols import OF_MACHINE, OF_RUN, Backbone, Runtime, Tracker
from toy_plugin import RECIPE, quicken

pytestmark = pytest.mark.slow

TRACKED = RECIPE + '\n[[tracker]]\nuse = "notes"\nfile = "mine.txt"\n'


@attrs.frozen
class Proxy:
    """A table within a runtime."""

    host: str = "localhost"
    port: int = 80


@attrs.frozen(kw_only=True)
class Cluster(Runtime):
    """A runtime of another's plugin, which marks what the types do not tell."""

    name: ClassVar[str] = "cluster"

    head: str | None = None
    hosts: tuple[str, ...] = ()
    headers: Mapping[str, str] = attrs.field(factory=dict)
    scratch: FilePath | None = None
    proxy: Proxy = attrs.field(factory=Proxy)
    machines: int = attrs.field(default=1, metadata=OF_MACHINE)
    precision: Literal["fp32", "bf16"] = "fp32"
    kernel: str = attrs.field(default="plain", metadata=OF_RUN)

    def build(self):
        """Not needed here."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class Remote(Backbone):
    """A backbone that another machine computes."""

    name: ClassVar[str] = "remote"

    model: str = "tiny"
    server: str = attrs.field(default="", metadata=OF_MACHINE)

    def build(self, context):
        """Not needed here."""
        raise NotImplementedError


@pytest.fixture
def plugins(toy_points):
    """All but the console, which would only be slow."""
    return load_plugins(point for point in toy_points if point.name != "console")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quicken(monkeypatch)


def paths(part):
    return {".".join(map(str, path)) for path, _, _ in machine_settings(part)}


def test_free_texts_of_a_runtime_are_settings_of_the_machine_and_so_is_what_is_marked():
    assert paths(Cluster()) == {
        "head",
        "hosts",
        "headers",
        "scratch",
        "proxy.host",
        "machines",
    }


def test_of_other_components_only_what_is_marked_is_a_setting_of_the_machine():
    assert paths(Remote()) == {"server"}


@pytest.mark.parametrize(
    ("hint", "free"),
    [
        (str, True),
        (str | None, True),
        (FilePath, True),
        (tuple[str, ...], True),
        (Mapping[str, str], True),
        (Any, True),
        (int, False),
        (bool | None, False),
        (float | Literal["auto"], False),
        (tuple[int, ...], False),
        (Mapping[str, float], False),
        (Proxy, False),
        (Tracker, False),
    ],
)
def test_a_type_that_can_hold_any_text_is_known(hint, free):
    assert holds_free_text(hint) is free


def interrupted(directory, recipe, plugins):
    """Return the directory of a run that was ended when it started."""

    class Ends:
        required = True

        @hookimpl(trylast=True)
        def step_finished(self):
            raise KeyboardInterrupt

    ends = Ends()
    plugins.manager.register(ends)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, directory, plugins)
    plugins.manager.unregister(ends)
    return directory


def test_a_resumed_run_says_what_it_left_out_and_how_to_give_it_again(
    recipe_of, plugins, tmp_path
):
    out = interrupted(tmp_path / "out", recipe_of(TRACKED), plugins)
    recipe = own_recipe(out, (), False, plugins)
    assert [tracker.file for tracker in recipe.tracker] == ["notes.txt"]
    warning = left_out_sentence(recipe)
    assert '`tracker.0.file` ("mine.txt") left out' in warning
    assert "--set 'tracker.0.file=\"mine.txt\"'" in warning

    given_again = own_recipe(out, ['tracker.0.file="mine.txt"'], False, plugins)
    assert [tracker.file for tracker in given_again.tracker] == ["mine.txt"]
    assert left_out_sentence(given_again) is None

    result = resume(out, plugins=plugins)
    assert warning in (out / "report.json").read_text().encode().decode(
        "unicode_escape"
    )
    assert (out / "notes.txt").is_file()
    assert result.scores


def test_a_run_that_is_named_its_recipe_again_leaves_nothing_out(
    recipe_of, plugins, tmp_path
):
    out = interrupted(tmp_path / "out", recipe_of(TRACKED), plugins)
    resume(out, recipe_of(TRACKED), plugins)
    assert "left out" not in (out / "report.json").read_text()
    assert (out / "mine.txt").is_file()
    assert not (out / "notes.txt").exists()


def test_other_settings_of_the_machine_are_no_change_of_the_recipe(
    recipe_of, plugins, tmp_path
):
    out = interrupted(tmp_path / "out", recipe_of(TRACKED), plugins)
    resume(out, recipe_of(TRACKED, "tracker.0.file=other.txt"), plugins)
    assert (out / "other.txt").is_file()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.text(min_size=1, max_size=30),
    host=st.text(max_size=30),
    machines=st.integers(2, 9),
)
def test_no_address_of_a_document_is_left_whatever_it_says(text, host, machines):
    table = {
        "head": text,
        "hosts": [host, text],
        "headers": {host: text},
        "scratch": text,
        "proxy": {"host": text, "port": machines},
        "machines": machines,
        "kernel": "fused",
    }
    runtime = Cluster(
        head=text,
        hosts=(host, text),
        headers={host: text},
        scratch=FilePath(text),
        proxy=Proxy(text, machines),
        machines=machines,
        kernel="fused",
    )
    document = without_machine_settings(Document(table), runtime)
    assert document.data == {"proxy": {"port": machines}, "kernel": "fused"}
    assert ("head",) in document.left_out
    assert ("machines",) in document.left_out


def test_a_saved_encoder_does_not_say_which_machine_it_is_computed_on(
    plugins, tmp_path
):
    remote = attrs.evolve(
        plugins.find("backbone", "characters"), name="remote", offered=Remote
    )
    with_remote = attrs.evolve(
        plugins, components={**plugins.components, ("backbone", "remote"): remote}
    )
    table = {
        "schema": 1,
        "backbone": {
            "use": "remote",
            "model": "theirs",
            "server": "https://example.org",
        },
        "pooler": {"use": "average"},
    }
    (tmp_path / "encoder.toml").write_text(tomli_w.dumps(table))
    backbone = saved_recipe(tmp_path, with_remote).backbone
    assert backbone == Remote(model="theirs")
