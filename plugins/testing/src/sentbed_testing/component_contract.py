"""The contract of every component, whatever its kind."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

import attrs
import pytest
import tomli_w
from sentbed.kinds import kind_of
from sentbed.protocols import Component
from sentbed.tools import component_of, unstructure
from sentbed_common import field_docs

LIKENESS = 0.8
"""Least similarity, by `difflib`, of a misspelt name and the right one."""


def require_known_words(words: Iterable[str], known_words: Collection[str]) -> None:
    """Fail for a word that is nearly a known one. Other words may be those of a plugin."""
    for word in words:
        if word in known_words or word.startswith("_"):
            continue

        close = get_close_matches(word, known_words, n=1, cutoff=LIKENESS)

        assert not close, f"found `{word}`, expected `{close[0]}`"


class ComponentContract:
    """Tests of a component. A subclass is a test class that sets `component`, or has a fixture of this name."""

    component: ClassVar[Any]
    """The component that is tested."""

    # The name sorts before `component`, so that a subclass's fixture of that name replaces this one.
    @pytest.fixture(name="component")
    def _component(self) -> Component:
        component: Component = self.component
        return component

    def test_is_documented(self, component: Component) -> None:
        """The class and each of its fields have a docstring, which `sentbed show` prints."""
        cls: Any = type(component)

        assert (cls.__doc__ or "").strip(), "the class has no docstring"

        docstrings = field_docs(cls)
        for field in attrs.fields(cls):
            if not field.metadata.get("skip"):
                assert docstrings.get(field.name), f"`{field.name}` has no docstring"

    def test_has_no_misspelt_name(self, component: Component) -> None:
        """None of its properties is nearly called like one of its kind, such as `ofers` for `offers`."""
        cls: Any = type(component)
        for kind in cls.__mro__:
            if kind_of(kind):
                break

        names = set(dir(cls))
        for field in attrs.fields(cls):
            names.discard(field.name)

        require_known_words(names, dir(kind))

    def test_survives_toml(self, component: Component) -> None:
        """Written as the table of a recipe and read again, it is equal."""
        table = unstructure(component)
        table.pop("use", None)
        written = tomli_w.dumps(table)

        assert component_of(type(component), tomllib.loads(written)) == component

    def test_survives_pickle(self, component: Component) -> None:
        """Pickled and read again, it is equal, and has the same hash unless a field is a table."""
        again = pickle.loads(pickle.dumps(component))

        assert again == component

        cls: Any = type(component)
        values = [getattr(component, field.name) for field in attrs.fields(cls)]
        if not any(isinstance(value, Mapping) for value in values):
            assert hash(again) == hash(component)
