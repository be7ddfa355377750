"""Convert attrs validators to JSON Schema keywords."""

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

_MADE_BY: Mapping[type[Any], str] = MappingProxyType(
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
"""Class of a validator -> attrs function that creates it; `number` is `ge`, `gt`, `le` and `lt`."""

_BOUNDS: Mapping[str, str] = MappingProxyType(
    {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}
)


def limit(schema: dict[str, Any], validator: Any) -> None:
    """Add the constraints of an attrs validator to a schema; unknown validators are left to `sentbed check`."""
    match _MADE_BY.get(type(validator)):
        case "and_":
            (parts,) = attrs.astuple(validator, recurse=False)
            for part in parts:
                limit(schema, part)
        case "optional":
            limit(schema, validator.validator)
        case "number":
            if is_plain(validator.bound):
                schema[_BOUNDS[validator.compare_op]] = validator.bound
        case "min_len":
            _limit_length(schema, "min", validator.min_length)
        case "max_len":
            _limit_length(schema, "max", validator.max_length)
        case "matches_re":
            _limit_text(schema, validator.pattern, validator.match_func.__name__)
        case "in_":
            if is_plain(options := list(validator.options)):
                schema["enum"] = options
        case "deep_iterable":
            limit(schema, validator.iterable_validator)
            if isinstance(schema.get("items"), dict):
                limit(schema["items"], validator.member_validator)


def _limit_text(
    schema: dict[str, Any], pattern: re.Pattern[str], function: str
) -> None:
    """Add a pattern unless it has flags or syntax that only Python knows: editors use ECMAScript's."""
    if pattern.flags != re.UNICODE or re.search(
        r"\(\?[^:=!]|[*+?}]\+|\\[AZ]", pattern.pattern
    ):
        return
    start, end = {"fullmatch": ("^", "$"), "match": ("^", "")}.get(function, ("", ""))
    schema["pattern"] = f"{start}(?:{pattern.pattern}){end}"


def _limit_length(schema: dict[str, Any], end: str, length: int) -> None:
    for part in schema.get("anyOf", [schema]):
        what = {"array": "Items", "object": "Properties"}.get(
            part.get("type", ""), "Length"
        )
        part[end + what] = length
