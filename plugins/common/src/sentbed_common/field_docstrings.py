"""Docstrings of the fields of classes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstring of each field of a class and its base classes, by the field's name.

    The docstrings are read from the source, since Python does not keep them.
    """
    docstrings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        # From Python 3.14 on, the attribute is made on demand: the namespace of the class need not have it.
        if getattr(base, "__annotations__", None):
            docstrings |= _own_field_docs(base)
    return docstrings


# Python parses the whole module for the source of each class, and most classes share their base classes.
@cache
def _own_field_docs(cls: type[Any]) -> Mapping[str, str]:
    """Return the docstring of each field that a class itself annotates."""
    docstrings: dict[str, str] = {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            docstrings[field.target.id] = str(after.value.value)

    return docstrings
