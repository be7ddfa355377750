"""Documentation of components and recipe tables, made from their docstrings and fields."""

from __future__ import annotations

import inspect
import json
import math
import re
import textwrap
from typing import Any, get_args, get_origin, get_type_hints

import attrs
from sentbed.kinds import KINDS, kind_of
from sentbed.protocols import (
    Checkpoint,
    Component,
    EncoderRecipe,
    Evaluate,
    Expected,
    Head,
    RunTable,
    Stage,
    Validate,
    Watch,
)
from sentbed.tools import TABLE, Offer, Plugins, unstructure
from sentbed_common import field_docs

REQUIRED = "required"
OPTIONAL = "optional"


def describe(offer: Offer) -> str:
    """Return a component's documentation: description, fields with defaults and meaning, properties, example."""
    lines = [f"{offer.kind} {offer.name}  ({offer.distribution} {offer.version})", ""]
    lines += (inspect.getdoc(offer.load()) or "").splitlines()
    lines += _fields(offer.load())
    if properties := property_lines(offer):
        lines += ["", "properties:"]
        lines += [f"  {line}" for line in properties]
    lines += ["", "example:", textwrap.indent(example(offer), "  ")]
    return "\n".join(lines)


def property_lines(offer: Offer) -> list[str]:
    """Return a line `name: value` for each property that differs from the default of the kind's base class.

    A property that follows from required fields has no value here.
    """
    kinds = (Component, KINDS[offer.kind].base)
    lines = []
    for kind in kinds:
        for name, default in vars(kind).items():
            value = getattr(offer.load(), name)
            if not isinstance(default, property) or value is default:
                continue
            if inspect.isdatadescriptor(value):
                value = "follows from the fields"
            lines.append(f"{name}: {_text(value)}")
    return lines


def _text(value: Any) -> str:
    """Return the value of a property as text."""
    if isinstance(value, Component):
        fields = [
            f"{key} = {json.dumps(part)}" for key, part in unstructure(value).items()
        ]
        return f"{{ {', '.join(fields)} }}"
    if isinstance(value, frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        return ", ".join(value) or "none"
    return str(value)


def tables(plugins: Plugins) -> dict[str, type[Any]]:
    """Return the classes of the recipe tables that are no components, by their names in `sentbed show`."""
    tables: dict[str, type[Any]] = {
        "run": RunTable,
        "encoder": EncoderRecipe,
        "head": Head,
        "stage": Stage,
        "validate": Validate,
        "watch": Watch,
        "evaluate": Evaluate,
        "checkpoint": Checkpoint,
        "expected": Expected,
    }
    for key in plugins.names(TABLE):
        tables[key] = plugins.load(TABLE, key)
    return tables


def describe_table(name: str, plugins: Plugins) -> str:
    """Return the documentation of a recipe table: description, and keys with defaults and meaning."""
    cls = tables(plugins)[name]
    return "\n".join([*(inspect.getdoc(cls) or "").splitlines(), *_fields(cls)])


def _fields(cls: type[Any]) -> list[str]:
    """Return lines with the key, type, default and documentation of each field."""
    docs = field_docs(cls)
    hints = hints_of(cls)
    lines: list[str] = []
    for field in attrs.fields(cls):
        if field.metadata.get("skip"):
            continue
        if not lines:
            lines = ["", "fields:"]
        default = default_text(field)
        if default not in (REQUIRED, OPTIONAL):
            default = f"default {default}"
        key = field.metadata.get("key", field.name)
        lines.append(f"  {key}: {type_name(hints[field.name])}, {default}")

        indent = " " * 6
        description = " ".join(docs.get(field.name, "").split())
        lines += textwrap.wrap(
            description, 96, initial_indent=indent, subsequent_indent=indent
        )
        if (form := _table_form(hints[field.name])) is not None:
            lines.append(f"      In a recipe: `{key} = {form}`.")

    return lines


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the type of each field by name, as source text if a name in a type cannot be resolved."""
    try:
        return get_type_hints(cls)
    except NameError:
        return {field.name: str(field.type) for field in attrs.fields(cls)}


def type_name(hint: Any) -> str:
    """Return a type as text, without the names of modules."""
    name = str(hint)
    if not hasattr(hint, "__args__"):
        name = getattr(hint, "__name__", name)
    # Quoted strings stay as they are, since a literal may contain dots, as the size `1.3b` does.
    return re.sub(r"('[^']*')|\b(?:\w+\.)+(?=\w)", lambda match: match[1] or "", name)


def default_of(field: attrs.Attribute[Any]) -> Any:
    """Return a field's default as a recipe would have it.

    The result is `attrs.NOTHING` if there is no default, or if JSON cannot represent the default.
    """
    default: Any = field.default
    if hasattr(default, "factory"):
        if default.takes_self:
            # The default depends on other fields, which are unknown here.
            return attrs.NOTHING
        default = default.factory()

    value = unstructure(default)
    if is_plain(value):
        return value
    return attrs.NOTHING


def is_plain(value: Any) -> bool:
    """Whether JSON can represent a value."""
    if isinstance(value, dict):
        has_text_keys = all(isinstance(key, str) for key in value)
        return has_text_keys and all(map(is_plain, value.values()))
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def default_text(field: attrs.Attribute[Any]) -> str:
    """Return a field's default as text: `REQUIRED` without a default, `OPTIONAL` if JSON cannot represent it."""
    if field.default is attrs.NOTHING:
        return REQUIRED
    default = default_of(field)
    if default is attrs.NOTHING:
        return OPTIONAL
    if default is None:
        return "none"
    return json.dumps(default)


def example(offer: Offer) -> str:
    """Return an example of how a recipe or the command line uses a component."""
    required = [
        field for field in attrs.fields(offer.load()) if field.default is attrs.NOTHING
    ]
    hints = hints_of(offer.load())
    kind = KINDS[offer.kind]
    pattern = kind.example
    if kind.on_command_line:
        command = pattern.format(offer.name)
        for field in required:
            command += f" --set {field.name}={_sample(hints[field.name])}"
        return command

    pairs = [f'use = "{offer.name}"']
    for field in required:
        pairs.append(f"{field.name} = {_sample(hints[field.name])}")
    if "= {}" in pattern:
        return pattern.format("{ " + ", ".join(pairs) + " }")
    return pattern.format("\n".join(pairs))


def _sample(hint: Any) -> str:
    """Return a sample value of a type, as it is written in a recipe."""
    samples = {float: "5e-5", int: "1", bool: "true"}
    return _table_form(hint) or samples.get(hint, '"..."')


def _table_form(hint: Any) -> str | None:
    """Return how a field that holds components is written in a recipe; None if the field holds none."""
    if kind_of(hint) is not None:
        return '{ use = "..." }'
    forms = [form for form in map(_table_form, get_args(hint)) if form is not None]
    if not forms:
        return None
    if get_origin(hint) is tuple:
        return f"[{forms[0]}]"
    return forms[0]
