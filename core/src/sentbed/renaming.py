"""Former names in a file of a recipe: where they stand, and what they are now; see `former`."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from sentbed.editing import Source
from sentbed.errors import PluginError
from sentbed.former import find_former, renamed_fields
from sentbed.recipe import MAIN_ENCODER, EncoderRecipe, Recipe
from sentbed.registry import Plugins
from sentbed.structure import KIND_OF
from sentbed.toml import KeyPath


def rename(plugins: Plugins, source: Source, whole: Mapping[str, Any]) -> None:
    """Say the edits by which a file has the names that components and their fields have now.

    `whole` is the file on top of those that it extends, which may say what a component is. Raises
    `RecipeError` where a table has a key under both its names.
    """
    _Walk(plugins, source, whole).file()


class _Walk:
    """Goes through a file by the types of a recipe, and says the edits."""

    def __init__(self, plugins: Plugins, source: Source, whole: Mapping[str, Any]) -> None:
        self.plugins = plugins
        self.source = source
        self.whole = whole

    def file(self) -> None:
        data = self.source.document.data
        if "backbone" in data:
            self.table(EncoderRecipe, data, self.whole, ())
            return
        self.table(Recipe, data, self.whole, ())
        study = _table(_at(data, "study"))
        for name, axis in _table(study.get("axes")).items():
            if isinstance(axis, dict):
                self.axis(axis, ("study", "axes", name))
        self.labels(study)

    def value(self, kind: Any, own: Any, whole: Any, path: KeyPath) -> None:
        """Look at what the file has at a path, and at what the whole recipe has there."""
        members = get_args(kind)
        if get_origin(kind) in (Union, types.UnionType):
            for member in members:
                self.value(member, own, whole, path)
        elif get_origin(kind) is tuple and isinstance(own, list):
            for i, item in enumerate(own):
                self.value(members[0], item, _same(whole, item, i), (*path, i))
        elif get_origin(kind) in (Mapping, dict) and isinstance(own, dict):
            for key, item in own.items():
                self.value(members[1], item, _at(whole, key), (*path, key))
        elif not isinstance(own, dict):
            return
        elif kind in KIND_OF:
            self.component(kind, own, whole, path)
        elif attrs.has(kind):
            self.table(kind, own, whole, path)

    def component(self, protocol: Any, own: Mapping[str, Any], whole: Any, path: KeyPath) -> None:
        cls = self.class_of(protocol, own.get("use", _at(whole, "use")))
        if cls is None:
            return
        if "use" in own and own["use"] != cls.name:
            self.source.replace((*path, "use"), cls.name)
        self.table(cls, own, whole, path)

    def class_of(self, protocol: Any, name: Any) -> Any:
        """Return the component of this name, or that had this name; None where there is none."""
        if not isinstance(name, str):
            return None
        try:
            return self.plugins.find(KIND_OF[protocol], name).cls
        except PluginError:
            found = find_former(self.plugins, KIND_OF[protocol], name)
            return None if found is None else found.cls

    def table(self, cls: type[Any], own: Mapping[str, Any], whole: Any, path: KeyPath) -> None:
        kinds, inline = _keys(cls)
        renamed = renamed_fields(cls)
        for key, item in own.items():
            if key not in kinds and key in renamed:
                self.source.rename((*path, key), renamed[key])
            self.value(kinds.get(renamed.get(key, key), Any), item, _at(whole, key), (*path, key))
        if inline is not None:
            fields = {key: item for key, item in own.items() if key not in kinds}
            self.component(inline, fields, whole, path)

    def axis(self, axis: Mapping[str, Any], at: KeyPath) -> None:
        """Look at the paths and the values of an axis of the study."""
        said = axis.get("path")
        paths = said if isinstance(said, list) else [said]
        if not all(isinstance(path, str) for path in paths):
            for label, settings in axis.items():
                if isinstance(settings, dict):
                    self.settings((), settings, (*at, label))
            return
        for i, path in enumerate(paths):
            place: KeyPath = (*at, "path", i) if isinstance(said, list) else (*at, "path")
            new, kind = self.resolve(path.split("."))
            if new != path.split("."):
                self.source.replace(place, ".".join(new))
            values = axis.get("values")
            for n, value in enumerate(values if isinstance(values, list) else ()):
                self.set_value(kind, value, (*at, "values", n))

    def labels(self, study: Mapping[str, Any]) -> None:
        """Look at what names a label that follows from a value: it follows from the one that is there now."""
        axes = _table(_at(_at(self.whole, "study"), "axes"))
        protocols = {name: self.named_by(axis) for name, axis in axes.items()}
        for key in ("baseline", "exclude", "include"):
            for at, entry in _each(study.get(key), ("study", key)):
                for axis, said in _table(entry).items():
                    for place, label in _each(said, (*at, axis)):
                        new = self.label(protocols.get(axis), label)
                        if new != label:
                            self.source.replace(place, new)
        for name, published in _table(study.get("expected")).items():
            for cell in _table(_at(published, "cells")):
                labels = cell.split(", ")
                if len(labels) == len(protocols):
                    new = ", ".join(map(self.label, protocols.values(), labels))
                    if new != cell:
                        self.source.rename(("study", "expected", name, "cells", cell), new)

    def named_by(self, axis: Any) -> Any:
        """Return the protocol of the components whose names are the labels of an axis, or None."""
        path = _at(axis, "path")
        first = path[0] if isinstance(path, list) and path else path
        if not isinstance(first, str) or "labels" in axis:
            return None
        return _protocol(self.resolve(first.split("."))[1])

    def label(self, protocol: Any, label: Any) -> Any:
        """Return a label, or that of several components, with the names that they have now."""
        if protocol is None or not isinstance(label, str):
            return label
        classes = {name: self.class_of(protocol, name) for name in (label, *label.split(" "))}
        now = {name: name if cls is None else cls.name for name, cls in classes.items()}
        return now[label] if now[label] != label else " ".join(now[word] for word in label.split(" "))

    def settings(self, above: tuple[str, ...], settings: Mapping[str, Any], at: KeyPath) -> None:
        """Look at `{ PATH = VALUE }`, where TOML takes a path without quotes apart."""
        for key, value in settings.items():
            keys = key.split(".")
            new, kind = self.resolve([*above, *keys])
            if new[len(above) :] != keys:
                self.source.rename((*at, key), ".".join(new[len(above) :]))
            if "." not in key and isinstance(value, dict) and value:
                self.settings((*above, key), value, (*at, key))
            else:
                self.set_value(kind, value, (*at, key))

    def set_value(self, kind: Any, value: Any, at: KeyPath) -> None:
        if isinstance(kind, _Name):
            cls = self.class_of(kind.protocol, value)
            if cls is not None and cls.name != value:
                self.source.replace(at, cls.name)
            return
        self.value(kind, value, value, at)

    def resolve(self, keys: list[str]) -> tuple[list[str], Any]:
        """Return the names that the keys of a path have now, and the type of what is there."""
        kind: Any = Recipe
        data: Any = self.whole
        new = []
        for key in keys:
            name, kind = self.step(kind, data, key)
            data = _element(data, key)
            new.append(name)
        return new, kind

    def step(self, kind: Any, data: Any, key: str) -> tuple[str, Any]:
        """Return the name that a key has now and the type of its value; `Any` where nothing is known."""
        members = get_args(kind)
        if get_origin(kind) in (Union, types.UnionType):
            found = [self.step(member, data, key) for member in members]
            return next((one for one in found if one[1] is not Any), (key, Any))
        if get_origin(kind) is tuple:
            return key, members[0]
        if get_origin(kind) in (Mapping, dict):
            return key, members[1]
        if kind in KIND_OF:
            if key == "use":
                return key, _Name(kind)
            kind = self.class_of(kind, _at(data, "use"))
        if kind is None or not attrs.has(kind):
            return key, Any
        kinds, inline = _keys(kind)
        name = key if key in kinds else renamed_fields(kind).get(key, key)
        if name not in kinds and inline is not None:
            return self.step(inline, data, key)
        return name, kinds.get(name, Any)


@attrs.frozen
class _Name:
    """The type of a `use`: the name of a component of this protocol."""

    protocol: Any


def _keys(cls: type[Any]) -> tuple[dict[str, Any], Any]:
    """Return the type of each key of a table, and of the component that stands in it, if there is one."""
    try:
        hints = get_type_hints(cls)
    except NameError:  # `sentbed check` says so; names that have changed are known all the same
        hints = {field.name: Any for field in attrs.fields(cls)}
    kinds, inline = {}, None
    for field in attrs.fields(cls):
        if field.metadata.get("inline"):
            inline = hints[field.name]
        elif not field.metadata.get("skip"):
            kinds[field.metadata.get("key", field.name)] = hints[field.name]
    if cls is Recipe:
        kinds[MAIN_ENCODER] = EncoderRecipe
    return kinds, inline


def _protocol(kind: Any) -> Any:
    """Return the protocol of the components that are, or stand in, values of a type; None where none do."""
    if isinstance(kind, _Name):
        return kind.protocol
    if kind in KIND_OF:
        return kind
    if attrs.has(kind):
        return _keys(kind)[1]
    return next((found for member in get_args(kind) if (found := _protocol(member)) is not None), None)


def _table(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _each(data: Any, at: KeyPath) -> list[tuple[KeyPath, Any]]:
    """Return what is at a place, or each element of the array that is there, with its place."""
    return [((*at, i), one) for i, one in enumerate(data)] if isinstance(data, list) else [(at, data)]


def _at(data: Any, key: str) -> Any:
    return data.get(key) if isinstance(data, Mapping) else None


def _element(data: Any, key: str) -> Any:
    """Return what is at a key of a path; of an array, by number or name."""
    if not isinstance(data, list):
        return _at(data, key)
    if key.isascii() and key.isdigit():
        return data[int(key)] if int(key) < len(data) else None
    return next((item for item in data if _at(item, "name") == key), None)


def _same(whole: Any, item: Any, index: int) -> Any:
    """Return the element of the whole recipe that an element of the file became a part of."""
    name = _at(item, "name")
    return _element(whole, name if isinstance(name, str) else str(index))
