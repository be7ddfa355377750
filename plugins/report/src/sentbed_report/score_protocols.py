"""Protocols of scores (all settings of a measurement): their parts, their hash, and how two protocols differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from sentbed.protocols import Score
from sentbed.tools import plain


def shown(value: Any) -> str:
    """Return the value of a protocol entry as text."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def evaluation_protocol(score: Score) -> dict[str, Any]:
    """Return the evaluator's part of a score's protocol as JSON data.

    Scores are comparable if this part is equal, even if the encoder's part differs.
    """
    return _plain(score.evaluator_protocol)


def protocol_hash(protocol: Mapping[str, Any]) -> str:
    """Return the hash of an evaluation protocol; equal protocols have equal hashes."""
    canonical = json.dumps(protocol, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def encoder_protocol(score: Score) -> dict[str, Any]:
    """Return the encoder's part of a score's protocol as JSON data."""
    return _plain(score.protocol["encoder"])


def protocol_entries(score: Score) -> dict[str, str]:
    """Return a score's protocol for readers: the evaluator's part, the note, then the encoder's part.

    If both parts have an entry of the same name, it is `NAME` for the evaluator and `encoder.NAME` for the
    encoder.
    """
    entries = {}
    for name, value in plain(score.evaluator_protocol).items():
        entries[str(name)] = shown(value)
    if score.note:
        entries["note"] = score.note
    for name, value in plain(score.protocol["encoder"]).items():
        key = str(name)
        if key in entries:
            key = f"encoder.{name}"
        entries[key] = shown(value)
    return entries


def unlike(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield each entry in which two protocols differ: its path, and `VALUE against OTHER VALUE`."""
    for name in dict.fromkeys([*first, *second]):
        value = first.get(name)
        other = second.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            for path, values in unlike(value, other):
                yield f"{name}.{path}", values
        elif value != other:
            values = f"{_shortened(value)} against {_shortened(other)}"
            yield str(name), values


def _plain(part: Mapping[str, Any]) -> dict[str, Any]:
    protocol: dict[str, Any] = plain(part)
    return dict(sorted(protocol.items()))


def _shortened(value: Any) -> str:
    """Return a value as text of at most 80 characters; `nothing` for None."""
    if value is None:
        return "nothing"
    text = shown(value)
    if len(text) > 80:
        text = f"{text[:79]}…"
    return text
