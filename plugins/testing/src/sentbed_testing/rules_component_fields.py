"""Rules that the fields of any component must keep: types, defaults, values from a recipe."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
from sentbed import FilePath, ModelId
from sentbed.errors import RecipeError
from sentbed.kinds import KINDS, kind_of
from sentbed.tools import Document, structure, unstructure

from sentbed_testing.component_under_test import (
    NotRunError,
    Subject,
    init_arguments,
    installed,
)

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

PLAIN_TYPES = (str, int, float, bool, NoneType, FilePath, ModelId)
"""Types of values that TOML can represent, and the type of None: a field that is None is left out of the TOML."""


def field_types(subject: Subject) -> Findings:
    """Every field has a type that TOML can represent."""
    if not attrs.has(subject.cls):
        raise NotRunError("it is not an attrs class; see the rule `frozen`")
    hints = get_type_hints(subject.cls)
    for field in attrs.fields(subject.cls):
        if field.metadata.get("skip"):
            continue
        if field.type is None:
            yield (
                f"the field `{field.name}` has no type",
                "annotate it, such as `size: int = 8`",
            )
            continue

        for unsuited in _types_unsuited_to_toml(hints[field.name]):
            yield (
                f"the field `{field.name}` has the type `{_type_name(unsuited)}`, which no recipe can give",
                "use str, int, float, bool, Literal, tuple, Mapping, a path, a frozen attrs class, a kind "
                "of component, or any of these `| None`",
            )
            break


def _types_unsuited_to_toml(hint: Any) -> Iterator[Any]:
    """Yield the types within a type hint that TOML cannot represent."""
    origin = get_origin(hint)
    if hint in PLAIN_TYPES or kind_of(hint):
        return
    if origin is Literal:
        plain = (str, int, float, bool)
        yield from [value for value in get_args(hint) if not isinstance(value, plain)]
    elif origin in (Union, UnionType):
        for member in get_args(hint):
            yield from _types_unsuited_to_toml(member)
    elif origin is tuple:
        for member in get_args(hint):
            if member is not ...:
                yield from _types_unsuited_to_toml(member)
    elif origin in (Mapping, dict):
        key, value = get_args(hint)
        if key is not str:
            yield key
        yield from _types_unsuited_to_toml(value)
    elif isinstance(hint, type) and attrs.has(hint):
        if hint.__setattr__ is object.__setattr__:
            yield hint
        hints = get_type_hints(hint)
        for field in attrs.fields(hint):
            yield from _types_unsuited_to_toml(hints[field.name])
    else:
        yield hint


def _type_name(hint: Any) -> str:
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint)


def defaults(subject: Subject) -> Findings:
    """Its validators accept its defaults, and it can be created."""
    if not attrs.has(subject.cls):
        raise NotRunError("it is not an attrs class; see the rule `frozen`")
    are_accepted = True
    for field in attrs.fields(subject.cls):
        default: Any = field.default
        if default is attrs.NOTHING:
            continue
        if hasattr(default, "factory"):
            if default.takes_self:
                continue
            default = default.factory()
        try:
            if field.validator is not None:
                field.validator(None, field, default)
        except (ValueError, TypeError) as error:
            are_accepted = False
            yield (
                f"the default of `{field.name}`, {default!r}, is refused by its own validator: {error}",
                "change the default or the validator",
            )
        except AttributeError:
            # The validator reads other fields of the instance. Creating the component calls it again.
            continue

    missing = []
    for field in attrs.fields(subject.cls):
        is_required = field.default is attrs.NOTHING and field.init
        if is_required and field.alias not in subject.example:
            missing.append(f"`{field.name}`")
    if missing:
        yield (
            f"fields without a default: {', '.join(missing)}",
            "give them in an `example`",
        )
        return

    if are_accepted:
        try:
            subject.make()
        except Exception as error:  # noqa: BLE001 - any exception is a finding
            yield (
                f"it cannot be created with {dict(subject.example) or 'its defaults'}: {error}",
                "change the defaults, or give an `example` that is valid",
            )


def toml(subject: Subject) -> Findings:
    """The component stays equal when it is written to TOML and read again."""
    import tomli_w

    part = subject.part
    table = unstructure(part)
    table.pop("use", None)
    written = tomli_w.dumps(table)
    document = Document.of(tomllib.loads(written))
    fix = "let each field hold what its type says, and compare by value (`eq` on)"
    try:
        again = structure(document, subject.cls, installed(), Path.cwd(), check=False)
    except RecipeError as error:
        message = error.problems[0].message
        yield f"written as TOML, it is refused: {message}", fix
        return
    if again != part:
        yield f"written as TOML it becomes {again!r}, not {part!r}", fix


def values(subject: Subject) -> Findings:
    """Two instances with equal fields are equal and have equal hashes, and an instance can be pickled."""
    part = subject.part
    twin = subject.cls(**init_arguments(part))
    if twin != part:
        yield (
            "two with the same fields are not equal",
            "leave `eq` of `attrs.frozen` as it is",
        )

    # A mapping has no hash.
    field_values = attrs.asdict(part, recurse=False).values()
    if not any(isinstance(value, Mapping) for value in field_values):
        yield from _hash_faults(part, twin)

    fix = (
        "define the class at the top of its module, and keep plain values in its fields"
    )
    try:
        restored = pickle.loads(pickle.dumps(part))
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        yield f"it cannot be pickled: {error}", fix
        return

    if restored != part:
        yield "pickled and read again, it is not equal", fix


def _hash_faults(part: Any, twin: Any) -> Findings:
    """Yield a finding if two equal components have no hash, or different hashes."""
    try:
        is_equal = hash(twin) == hash(part)
    except TypeError as error:
        yield (
            f"it has no hash: {error}",
            "use tuples instead of lists, and frozen classes instead of tables",
        )
        return

    if not is_equal:
        yield (
            "two with the same fields have different hashes",
            "leave `hash` of `attrs.frozen` as it is",
        )


INHERITED_TRAITS: Mapping[str, Mapping[str, Any]] = {
    "backbone": {"runs_code": True, "untrainable": "it is not trained"},
    "pooler": {
        "needs": frozenset({"of-the-inner"}),
        "new_layer": True,
        "pretrained": True,
    },
    "loss": {
        "needs": frozenset({"of-the-inner"}),
        "compares_texts": True,
        "scheduled": True,
        "stateful": True,
    },
    "data": {"fetches": True},
    "evaluator": {"development": False, "reads": frozenset({"vector"})},
}
"""Kind -> trait -> test value. If a field of a component holds a component of the same kind, the outer component
inherits these traits from the inner one."""


def inner(subject: Subject) -> Findings:
    """If a field holds a component of the same kind, the outer component inherits the traits of the inner one.

    It does not call the `check` of the inner component, since core calls it.
    """
    part, kind = subject.part, subject.kind
    expected = INHERITED_TRAITS.get(kind, {})
    if not attrs.has(subject.cls):
        raise NotRunError("it is not an attrs class; see the rule `frozen`")

    for field in attrs.fields(subject.cls):
        value = getattr(part, field.name)
        first = value[0] if isinstance(value, tuple) and value else value
        if not isinstance(first, KINDS[kind].base):
            continue

        calls: list[str] = []
        replaced: Any = _probe(first, expected, calls)
        if isinstance(value, tuple):
            replaced = (replaced, *value[1:])
        outer = attrs.evolve(part, **{field.alias: replaced})
        list(outer.check())
        if calls:
            yield (
                f"its `check` calls that of the {kind} in `{field.name}`",
                "leave the call out: core calls it, and users would read everything twice",
            )

        for name, inner_value in expected.items():
            outer_value = getattr(outer, name)
            if not _is_inherited(name, outer_value, inner_value):
                yield (
                    f"the {kind} in `{field.name}` has `{name} = {_sorted_set(inner_value)}`, but the outer one "
                    f"has {_sorted_set(outer_value)}",
                    f"write `{name}` as a property that returns that of `self.{field.name}`",
                )


def _probe(
    inner: Any,
    traits: Mapping[str, Any],
    calls: list[str],
) -> Any:
    """Return a copy of `inner` with other traits. Its `check` appends to `calls`."""
    cls: Any = type(inner)
    metaclass: Any = type(cls)

    def check(self: Any) -> Iterator[str]:
        calls.append(self.name)
        return iter(())

    changes = {**traits, "check": check}
    probe = metaclass(cls.__name__, (cls,), changes)
    return probe(**init_arguments(inner))


def _is_inherited(
    name: str,
    outer_value: Any,
    inner_value: Any,
) -> bool:
    """Whether a trait of a component respects the same trait of its inner component."""
    if name == "needs":
        return bool(outer_value >= inner_value)
    if name == "reads":
        return bool(outer_value <= inner_value)
    return bool(outer_value == inner_value)


def _sorted_set(trait: Any) -> Any:
    return sorted(trait) if isinstance(trait, frozenset) else trait


RULES = {
    "field-types": field_types,
    "defaults": defaults,
    "toml": toml,
    "values": values,
    "inner": inner,
}
