"""Documentation of components and recipe tables, from docstrings and fields."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from typing import Any, get_args, get_origin, get_type_hints

import attrs
from sentbed.kinds import KINDS, kind_of
from sentbed.protocols import Head
from sentbed.tools import (
    Checkpoint,
    ComponentInfo,
    EncoderRecipe,
    Evaluate,
    Expected,
    Plugins,
    Prompt,
    Run,
    Stage,
    Validate,
    Watch,
    unstructure,
)
from sentbed_common import field_docs

REQUIRED, OPTIONAL = "required", "optional"


def describe(info: ComponentInfo) -> str:
    """Return a component's documentation: description, fields with defaults and meaning, example."""
    lines = [f"{info.kind} {info.name}  ({info.distribution} {info.version})", ""]
    lines += (inspect.getdoc(info.cls) or "").splitlines()
    lines += _fields(info.cls)
    if trait_lines := traits_lines(info):
        lines += ["", "traits:"]
        lines += [f"  {line}" for line in trait_lines]
    lines += ["", "example:", textwrap.indent(example(info), "  ")]
    return "\n".join(lines)


def traits_lines(info: ComponentInfo) -> list[str]:
    """Return `name: value` for each trait not at its default, for a component with default fields."""
    traits = KINDS[info.kind].traits_of(info.cls)
    if traits is None:
        return ["they follow from the fields"]
    lines = []
    for field in attrs.fields(type(traits)):
        value = getattr(traits, field.name)
        if value != field.default:
            lines.append(f"{field.name}: {_trait(value)}")
    return lines


def _trait(value: Any) -> str:
    if isinstance(value, frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        return ", ".join(value) or "none"
    return str(value)


def tables(plugins: Plugins) -> dict[str, type[Any]]:
    """Return the recipe tables that are not components, by the name used in `sentbed show`."""
    tables: dict[str, type[Any]] = {
        "run": Run,
        "encoder": EncoderRecipe,
        "head": Head,
        "prompt": Prompt,
        "stage": Stage,
        "validate": Validate,
        "watch": Watch,
        "evaluate": Evaluate,
        "checkpoint": Checkpoint,
        "expected": Expected,
    }
    for key, offer in plugins.tables.items():
        tables[key] = offer.value
    return tables


def describe_table(name: str, plugins: Plugins) -> str:
    """Return the documentation of a recipe table: description, keys with defaults and meaning."""
    cls = tables(plugins)[name]
    return "\n".join([*(inspect.getdoc(cls) or "").splitlines(), *_fields(cls)])


def _fields(cls: type[Any]) -> list[str]:
    documented = field_docs(cls)
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
        meaning = inspect.cleandoc(documented.get(field.name, ""))
        lines += textwrap.wrap(
            meaning, 96, initial_indent="      ", subsequent_indent="      "
        )
        if (form := _table_form(hints[field.name])) is not None:
            lines.append(f"      In a recipe: `{key} = {form}`.")

    return lines


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the type of each field, or its source text if a name in it cannot be resolved."""
    try:
        return get_type_hints(cls)
    except NameError:
        return {field.name: str(field.type) for field in attrs.fields(cls)}


def type_name(hint: Any) -> str:
    """Return the name of a type for users, without modules."""
    name = str(hint)
    if not hasattr(hint, "__args__"):
        name = getattr(hint, "__name__", name)
    # A literal may contain dots, such as the size `1.3b`: quoted strings are left alone.
    return re.sub(r"('[^']*')|\b(?:\w+\.)+(?=\w)", lambda match: match[1] or "", name)


def default_of(field: attrs.Attribute[Any]) -> Any:
    """Return a field's default as in a recipe; `attrs.NOTHING` if it has none that JSON can represent."""
    default: Any = field.default
    if hasattr(default, "factory"):
        if default.takes_self:
            # A default that depends on other fields is unknown without them.
            return attrs.NOTHING
        default = default.factory()
    value = unstructure(default)
    if is_plain(value):
        return value
    return attrs.NOTHING


def is_plain(value: Any) -> bool:
    """Whether JSON can represent a value."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values())) and all(
            isinstance(key, str) for key in value
        )
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)


def default_text(field: attrs.Attribute[Any]) -> str:
    """Return a field's default as text: `REQUIRED` if it has none, `OPTIONAL` if it cannot be shown."""
    import json

    if field.default is attrs.NOTHING:
        return REQUIRED
    default = default_of(field)
    if default is attrs.NOTHING:
        return OPTIONAL
    if default is None:
        return "none"
    return json.dumps(default)


def example(info: ComponentInfo) -> str:
    """Return an example of a component's use in a recipe or on the command line."""
    required = [
        field for field in attrs.fields(info.cls) if field.default is attrs.NOTHING
    ]
    hints = hints_of(info.cls)
    kind = KINDS[info.kind]
    place = kind.example
    if kind.on_command_line:
        command = place.format(info.name)
        for field in required:
            command += f" --set {field.name}={_sample(hints[field.name])}"
        return command

    pairs = [f'use = "{info.name}"']
    for field in required:
        pairs.append(f"{field.name} = {_sample(hints[field.name])}")
    if "= {}" in place:
        return place.format("{ " + ", ".join(pairs) + " }")
    return place.format("\n".join(pairs))


def _sample(hint: Any) -> str:
    """Return a sample value of a type, as a recipe writes it."""
    samples = {float: "5e-5", int: "1", bool: "true"}
    return _table_form(hint) or samples.get(hint, '"..."')


def _table_form(hint: Any) -> str | None:
    """Return how a recipe writes a field that holds components, or None if it holds none."""
    if kind_of(hint) is not None:
        return '{ use = "..." }'
    forms = [form for form in map(_table_form, get_args(hint)) if form is not None]
    if not forms:
        return None
    return f"[{forms[0]}]" if get_origin(hint) is tuple else forms[0]
