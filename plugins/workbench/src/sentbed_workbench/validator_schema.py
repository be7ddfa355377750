"""Conversion of attrs validators to keywords of JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs
from attrs.validators import (
    and_,
    deep_iterable,
    ge,
    in_,
    matches_re,
    max_len,
    min_len,
    optional,
)

from sentbed_workbench.component_docs import is_plain

_CREATORS: Mapping[type[Any], str] = MappingProxyType(
    {
        type(and_()): "and_",
        type(deep_iterable(ge(0))): "deep_iterable",
        type(ge(0)): "number",
        type(in_(())): "in_",
        type(matches_re("")): "matches_re",
        type(max_len(0)): "max_len",
        type(min_len(0)): "min_len",
        type(optional(ge(0))): "optional",
    }
)
"""Class of a validator -> the attrs function that creates it; `number` stands for `ge`, `gt`, `le` and `lt`."""

_BOUNDS: Mapping[str, str] = MappingProxyType(
    {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}
)
"""Operator of a `number` validator -> keyword."""


def add_constraints(schema: dict[str, Any], validator: Any) -> None:
    """Add the constraints of an attrs validator to a schema. Validators of unknown types add nothing."""
    match _CREATORS.get(type(validator)):
        case "and_":
            (parts,) = attrs.astuple(validator, recurse=False)
            for part in parts:
                add_constraints(schema, part)
        case "optional":
            add_constraints(schema, validator.validator)
        case "number":
            if is_plain(validator.bound):
                schema[_BOUNDS[validator.compare_op]] = validator.bound
        case "min_len":
            _add_length(schema, "min", validator.min_length)
        case "max_len":
            _add_length(schema, "max", validator.max_length)
        case "matches_re":
            _add_pattern(schema, validator.pattern, validator.match_func.__name__)
        case "in_":
            if is_plain(options := list(validator.options)):
                schema["enum"] = options
        case "deep_iterable":
            add_constraints(schema, validator.iterable_validator)
            if isinstance(schema.get("items"), dict):
                add_constraints(schema["items"], validator.member_validator)


def _add_pattern(
    schema: dict[str, Any],
    pattern: re.Pattern[str],
    function: str,
) -> None:
    """Add a regular expression, unless it has flags or syntax that ECMAScript, which editors use, lacks."""
    python_syntax = r"\(\?[^:=!]|[*+?}]\+|\\[AZ]"
    if pattern.flags != re.UNICODE or re.search(python_syntax, pattern.pattern):
        return

    start = "^" if function in ("match", "fullmatch") else ""
    end = "$" if function == "fullmatch" else ""
    schema["pattern"] = f"{start}(?:{pattern.pattern}){end}"


def _add_length(
    schema: dict[str, Any],
    end: str,
    length: int,
) -> None:
    """Add the least (`end` is `min`) or the largest (`max`) length of an array, a table or a text."""
    nouns = {"array": "Items", "object": "Properties"}
    for alternative in schema.get("anyOf", [schema]):
        noun = nouns.get(alternative.get("type", ""), "Length")
        alternative[end + noun] = length
