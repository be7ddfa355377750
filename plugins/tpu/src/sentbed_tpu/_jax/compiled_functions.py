"""Functions compiled by XLA once for a shape, with the number of compilations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
from sentbed import RunError


@contextmanager
def fitting() -> Iterator[None]:
    """Turn an out-of-memory error of the devices into a `RunError`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise RunError(
            "this does not fit into the memory of the devices; set a smaller `micro_batch` in the stage, a "
            'smaller `token_budget` in the runtime, or `parallel = "fsdp"` over several of them'
        ) from error


class Compiled:
    """Functions of one engine, compiled for every shape they meet.

    `shapes` are those of the encoder, which takes longest; `seconds` is the total time of first calls.
    """

    def __init__(self) -> None:
        self.shapes = 0
        self.seconds = 0.0

    def jit(
        self, function: Callable[..., Any], counted: bool = False, **options: Any
    ) -> Callable[..., Any]:
        """Return `jax.jit(function, **options)` with its compilations counted."""
        jitted: Any = jax.jit(function, **options)

        def call(*arguments: Any) -> Any:
            before, start = jitted._cache_size(), time.monotonic()
            with fitting():
                result = jitted(*arguments)
            if jitted._cache_size() > before:
                self.seconds += time.monotonic() - start
                self.shapes += counted
            return result

        call.lower = jitted.lower  # type: ignore[attr-defined]
        return call

    def counters(self) -> Mapping[str, float]:
        """Return the counters of `Engine.counters`."""
        return {"compiled_shapes": self.shapes, "compile_seconds": self.seconds}
