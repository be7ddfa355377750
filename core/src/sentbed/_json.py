"""JSON data of attrs classes and other values, and back: records of runs, histories, training states."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Set
from types import NoneType
from typing import Any, TypeVar

from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.preconf.json import make_converter

from sentbed.protocols.evaluation import Score

Result = TypeVar("Result")


def plain(value: Any) -> Any:
    """Return a value with only the types of JSON, such as the table of a `Score`.

    NaN and infinite numbers become None. An object of a type that is unknown becomes its `str`.
    """
    return _CONVERTER.unstructure(value)


def from_plain(data: Any, cls: type[Result]) -> Result:
    """Return the instance of `cls` from which `plain` has made the data; None as a number becomes NaN.

    Raises:
        KeyError, TypeError, ValueError: if the data is not that of an instance.
    """
    return _CONVERTER.structure(data, cls)


def key_of(*parts: Any) -> str:
    """Return the hash of values, which is equal if their JSON data is: 32 hexadecimal digits."""
    text = json.dumps(plain(parts), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _hook_of_unknown(cls: Any) -> Callable[[Any], Any]:
    """Return the function that makes JSON data of a type for which cattrs has none."""
    if not isinstance(cls, type):
        # It is an annotation, such as a `Literal`: the type of the value decides.
        return plain
    if hasattr(cls, "tolist"):
        return _plain_array
    if issubclass(cls, (int, NoneType)):
        return _unchanged
    return str


def _plain_array(array: Any) -> Any:
    """Return the JSON data of a NumPy array or scalar."""
    return plain(array.tolist())


def _unchanged(value: Any) -> Any:
    """Return the value itself."""
    return value


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Return the members of a set as a list in a fixed order."""
    return sorted(values, key=repr)


def _plain_number(number: float) -> float | None:
    """Return a number, or None if it is not finite, which JSON cannot express."""
    if not math.isfinite(number):
        return None
    return float(number)


def _number(value: Any, _: Any) -> float:
    """Return a number; None stands for NaN. Raises `TypeError` for a value of another type."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        raise TypeError(f"found {value!r:.80}, expected a number")
    return float(value)


def _of_type(value: Any, cls: type[Result]) -> Result:
    """Return a value of exactly this type. Raises `TypeError` for one of another, which cattrs would convert."""
    if type(value) is not cls:
        raise TypeError(f"found {value!r:.80}, expected {cls.__name__}")
    return value


_CONVERTER = make_converter(
    detailed_validation=False,
    unstructure_fallback_factory=_hook_of_unknown,
    unstruct_collection_overrides={Set: _in_order},
)
_CONVERTER.register_unstructure_hook(float, _plain_number)
_CONVERTER.register_structure_hook(float, _number)
for _type in (str, int, bool):
    _CONVERTER.register_structure_hook(_type, _of_type)

# The items of a score are arrays, which no JSON file has.
_IF_SET = override(omit_if_default=True)
_CONVERTER.register_unstructure_hook(
    Score,
    make_dict_unstructure_fn(
        Score,
        _CONVERTER,
        items=override(omit=True),
        plugin=_IF_SET,
        note=_IF_SET,
        degenerate=_IF_SET,
        skipped=_IF_SET,
        axis=_IF_SET,
    ),
)
_CONVERTER.register_structure_hook(
    Score,
    make_dict_structure_fn(Score, _CONVERTER, items=override(omit=True)),
)
