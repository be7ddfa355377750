"""Shows a component as its author documented it, and the template of a recipe."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from typing import Any, get_type_hints

import attrs
from sentbed.kinds import KINDS
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
    field_docs,
    unstructure,
)

REQUIRED, OPTIONAL = "required", "optional"


def describe(info: ComponentInfo) -> str:
    """Return a component's documentation: what it is, its fields with defaults and meaning, an example."""
    lines = [f"{info.kind} {info.name}  ({info.distribution} {info.version})", ""]
    lines += (inspect.getdoc(info.cls) or "").splitlines()
    lines += _fields(info.cls)
    if said := traits_lines(info):
        lines += ["", "traits:", *(f"  {line}" for line in said)]
    return "\n".join([*lines, "", "example:", textwrap.indent(example(info), "  ")])


def traits_lines(info: ComponentInfo) -> list[str]:
    """Return `name: value` for each trait not at its default, for a component with default fields."""
    said = KINDS[info.kind].traits_of(info.cls)
    if said is None:
        return ["they follow from the fields"]
    fields = ((field, getattr(said, field.name)) for field in attrs.fields(type(said)))
    shown = {field.name: value for field, value in fields if value != field.default}
    return [f"{name}: {_trait(value)}" for name, value in shown.items()]


def _trait(value: Any) -> str:
    words = sorted(value) if isinstance(value, frozenset) else value
    return (", ".join(words) or "none") if isinstance(words, list | tuple) else str(words)


def tables(plugins: Plugins) -> dict[str, type[Any]]:
    """Return the tables of a recipe that are no components, by the name under which they are shown."""
    return {
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
        **{key: offer.value for key, offer in plugins.tables.items()},
    }


def describe_table(name: str, plugins: Plugins) -> str:
    """Return the documentation of a table of a recipe: what it is, its keys with defaults and meaning."""
    cls = tables(plugins)[name]
    return "\n".join([*(inspect.getdoc(cls) or "").splitlines(), *_fields(cls)])


def _fields(cls: type[Any]) -> list[str]:
    documented = field_docs(cls)
    hints = hints_of(cls)
    fields = [field for field in attrs.fields(cls) if not field.metadata.get("skip")]
    lines = ["", "fields:"] if fields else []
    for field in fields:
        default = default_text(field)
        if default not in (REQUIRED, OPTIONAL):
            default = f"default {default}"
        lines.append(f"  {field.metadata.get('key', field.name)}: {type_name(hints[field.name])}, {default}")
        meaning = inspect.cleandoc(documented.get(field.name, ""))
        lines += textwrap.wrap(meaning, 96, initial_indent="      ", subsequent_indent="      ")
    return lines


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the type of each field, or what the source says where a name in it cannot be resolved."""
    try:
        return get_type_hints(cls)
    except NameError:
        return {field.name: str(field.type) for field in attrs.fields(cls)}


def type_name(hint: Any) -> str:
    """Return a type as users read it: without the modules of its names."""
    name = getattr(hint, "__name__", str(hint)) if not hasattr(hint, "__args__") else str(hint)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", name)


def default_of(field: attrs.Attribute[Any]) -> Any:
    """Return a field's default as a recipe has it; `attrs.NOTHING` where it has none that JSON can say."""
    default: Any = field.default
    if hasattr(default, "factory"):
        # What follows from other fields is known only with them.
        default = attrs.NOTHING if default.takes_self else default.factory()
    value = unstructure(default)
    return value if is_plain(value) else attrs.NOTHING


def is_plain(value: Any) -> bool:
    """Whether JSON can say a value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return math.isfinite(value) if isinstance(value, float) else value is None or isinstance(value, str | int)


def default_text(field: attrs.Attribute[Any]) -> str:
    """Return a field's default in words: `REQUIRED` where it has none, `OPTIONAL` where none can be named."""
    import json

    default = default_of(field)
    if default is attrs.NOTHING:
        return REQUIRED if field.default is attrs.NOTHING else OPTIONAL
    return "none" if default is None else json.dumps(default)


def example(info: ComponentInfo) -> str:
    """Return how a recipe, or the command line, uses a component."""
    required = [field for field in attrs.fields(info.cls) if field.default is attrs.NOTHING]
    pairs = [f'use = "{info.name}"', *(f"{field.name} = {_sample(field)}" for field in required)]
    kind = KINDS[info.kind]
    place = kind.example
    if kind.on_command_line:
        options = (f" --set {field.name}={_sample(field)}" for field in required)
        return place.format(info.name) + "".join(options)
    inline = "= {}" in place
    return place.format("{ " + ", ".join(pairs) + " }" if inline else "\n".join(pairs))


def _sample(field: attrs.Attribute[Any]) -> str:
    return {"float": "5e-5", "int": "1", "bool": "true"}.get(str(field.type), '"..."')
