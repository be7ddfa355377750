"""What validators of attrs allow, in words of JSON Schema."""

from __future__ import annotations

import re
from typing import Any

from sentbed.tools import is_plain


def limit(schema: dict[str, Any], validator: Any) -> None:
    """Add what a validator of attrs allows; of any other, nothing is known."""
    match type(validator).__name__:
        case "_AndValidator":
            for inner in validator._validators:
                limit(schema, inner)
        case "_OptionalValidator":
            limit(schema, validator.validator)
        case "_NumberValidator":
            words = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}
            if is_plain(validator.bound):
                schema[words[validator.compare_op]] = validator.bound
        case "_MinLengthValidator":
            _limit_length(schema, "min", validator.min_length)
        case "_MaxLengthValidator":
            _limit_length(schema, "max", validator.max_length)
        case "_MatchesReValidator":
            _limit_text(schema, validator.pattern, validator.match_func.__name__)
        case "_InValidator":
            if is_plain(options := list(validator.options)):
                schema["enum"] = options
        case "_DeepIterable":
            limit(schema, validator.iterable_validator)
            if isinstance(schema.get("items"), dict):
                limit(schema["items"], validator.member_validator)


def _limit_text(schema: dict[str, Any], pattern: re.Pattern[str], function: str) -> None:
    """Add a pattern, unless it has flags or what only Python reads: editors read that of ECMAScript."""
    if pattern.flags != re.UNICODE or re.search(r"\(\?[^:=!]|[*+?}]\+|\\[AZ]", pattern.pattern):
        return
    start, end = {"fullmatch": ("^", "$"), "match": ("^", "")}.get(function, ("", ""))
    schema["pattern"] = f"{start}(?:{pattern.pattern}){end}"


def _limit_length(schema: dict[str, Any], end: str, length: int) -> None:
    for part in schema.get("anyOf", [schema]):
        what = {"array": "Items", "object": "Properties"}.get(part.get("type", ""), "Length")
        part[end + what] = length
