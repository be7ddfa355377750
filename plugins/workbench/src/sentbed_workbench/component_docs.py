"""Documentation of components and recipe tables, made from their docstrings and fields."""

from __future__ import annotations

import inspect
import json
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


@attrs.frozen(eq=False)
class TableKey:
    """A key of a recipe's table, which a field of a class describes."""

    name: str
    type: Any
    documentation: str
    default: Any
    """The default as a recipe would have it; `attrs.NOTHING` if there is none, or if JSON cannot represent it."""
    is_required: bool
    is_table: bool
    """Whether the keys of its value are keys of the table itself."""

    @property
    def default_text(self) -> str:
        """The default as text: `REQUIRED` without one, `OPTIONAL` if JSON cannot represent it."""
        if self.is_required:
            return REQUIRED
        if self.default is attrs.NOTHING:
            return OPTIONAL
        if self.default is None:
            return "none"
        return json.dumps(self.default)


def keys_of(cls: type[Any]) -> list[TableKey]:
    """Return the keys of the table that a class describes, in the order of its fields."""
    docs = field_docs(cls)
    hints = hints_of(cls)
    keys = []
    for field in attrs.fields(cls):
        if field.metadata.get("skip"):
            continue
        key = TableKey(
            name=field.metadata.get("key", field.name),
            type=hints[field.name],
            documentation=inspect.cleandoc(docs.get(field.name, "")),
            default=_default_of(field),
            is_required=field.default is attrs.NOTHING,
            is_table=bool(field.metadata.get("inline") or field.metadata.get("spread")),
        )
        keys.append(key)
    return keys


def _fields(cls: type[Any]) -> list[str]:
    """Return lines with the key, type, default and documentation of each field."""
    lines: list[str] = []
    for key in keys_of(cls):
        if not lines:
            lines = ["", "fields:"]
        default = key.default_text
        if default not in (REQUIRED, OPTIONAL):
            default = f"default {default}"
        lines.append(f"  {key.name}: {type_name(key.type)}, {default}")

        indent = " " * 6
        description = " ".join(key.documentation.split())
        lines += textwrap.wrap(
            description, 96, initial_indent=indent, subsequent_indent=indent
        )
        if (form := _table_form(key.type)) is not None:
            lines.append(f"      In a recipe: `{key.name} = {form}`.")

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


def _default_of(field: attrs.Attribute[Any]) -> Any:
    """Return the default of a field; see `TableKey.default`."""
    default: Any = field.default
    if hasattr(default, "factory"):
        if default.takes_self:
            # The default depends on other fields, which are unknown here.
            return attrs.NOTHING
        default = default.factory()

    value = unstructure(default)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return attrs.NOTHING
    return value


def example(offer: Offer) -> str:
    """Return an example of how a recipe or the command line uses a component."""
    required = [key for key in keys_of(offer.load()) if key.is_required]
    kind = KINDS[offer.kind]
    pattern = kind.example
    if kind.on_command_line:
        command = pattern.format(offer.name)
        for key in required:
            command += f" --set {key.name}={_sample(key.type)}"
        return command

    pairs = [f'use = "{offer.name}"']
    for key in required:
        pairs.append(f"{key.name} = {_sample(key.type)}")
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
