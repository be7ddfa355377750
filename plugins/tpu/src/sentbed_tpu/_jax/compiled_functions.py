"""Functions that XLA compiles once for each shape of their arguments, and counters of the compilations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from sentbed import RunError


@contextmanager
def fitting() -> Iterator[None]:
    """While active, turn JAX's error that a device is out of memory into a `RunError`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise RunError(
            "a batch does not fit into the memory of the devices; set a smaller `micro_batch` in the stage, a "
            'smaller `token_budget` in the runtime, or `parallel = "fsdp"` over several devices'
        ) from error


class Compiled:
    """The compiled functions of an engine.

    `shapes` is the number of compilations of encoders, which take longest. `seconds` is the total time of the
    calls in which any function was compiled.
    """

    def __init__(self) -> None:
        self.shapes = 0
        self.seconds = 0.0

    def jit(
        self,
        function: Callable[..., Any],
        counted: bool = False,
        **options: Any,
    ) -> Callable[..., Any]:
        """Return `jax.jit(function, **options)`. With `counted`, its compilations are counted in `shapes`."""
        jitted: Any = jax.jit(function, **options)

        def call(*arguments: Any, **static: Any) -> Any:
            before, start = jitted._cache_size(), time.monotonic()
            with fitting():
                result = jitted(*arguments, **static)
            if jitted._cache_size() > before:
                self.seconds += time.monotonic() - start
                self.shapes += counted
            return result

        return call
