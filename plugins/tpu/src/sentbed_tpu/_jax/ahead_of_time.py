"""Compiling ahead of time for absent devices, with shapes instead of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import jax
import numpy as np
from jax.experimental import topologies
from sentbed import RuntimeUnavailableError
from sentbed.protocols import Columns
from sentbed_hardware.engine_parts.process_group import Processes

from sentbed_tpu._jax.compiled_functions import Compiled
from sentbed_tpu._jax.engine import JaxEngine
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.trainer import JaxTrainer


class AheadLayout(Layout):
    """A layout over devices that exist only as descriptions."""

    def place(self, value: Any, sharding: Any) -> Any:
        """Return the shape of the array, with its sharding."""
        host = np.asarray(value)
        return jax.ShapeDtypeStruct(
            host.shape, jax.dtypes.canonicalize_dtype(host.dtype), sharding=sharding
        )


class AheadCompiled(Compiled):
    """Lowers every function that is called to the platform `tpu`, and compiles it if `compiles` is true.

    `lowered` has the name of each, the size of its text in bytes and, once compiled, XLA's own counts.
    """

    def __init__(self, compiles: bool) -> None:
        super().__init__()
        self.compiles = compiles
        self.lowered: list[dict[str, Any]] = []

    def jit(
        self, function: Callable[..., Any], counted: bool = False, **options: Any
    ) -> Callable[..., Any]:
        """Return a function that takes and returns shapes."""
        jitted: Any = jax.jit(function, **options)
        static = options.get("static_argnums", ())

        def call(*arguments: Any) -> Any:
            shapes = [
                a if n in static else jax.tree.map(_shape, a)
                for n, a in enumerate(arguments)
            ]
            traced = jitted.trace(*shapes)
            lowered = traced.lower(lowering_platforms=("tpu",))
            record = {
                "function": getattr(function, "__qualname__", "?"),
                "bytes": len(lowered.as_text()),
            }
            self.shapes += counted
            self.lowered.append(record)
            out = lowered.out_info
            placed = options.get("out_shardings")
            if self.compiles:
                compiled = lowered.compile()
                cost, memory = (
                    compiled.cost_analysis() or {},
                    compiled.memory_analysis(),
                )
                record |= {
                    "flop": cost.get("flops"),
                    "temporary_bytes": memory.temp_size_in_bytes,
                }
                placed = compiled.output_shardings
            if placed is None:
                return jax.tree.map(
                    lambda info: jax.ShapeDtypeStruct(info.shape, info.dtype), out
                )
            return jax.tree.map(
                lambda info, sharding: jax.ShapeDtypeStruct(
                    info.shape, info.dtype, sharding=sharding
                ),
                out,
                jax.tree.broadcast(placed, out),
            )

        return call


def _shape(value: Any) -> Any:
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def described(topology: str) -> list[Any]:
    """Return the devices of a topology such as `v5e:2x4`; raises `RuntimeUnavailableError` without libtpu."""
    try:
        return list(
            topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
        )
    except Exception as error:  # what libtpu raises for want of itself or of a topology has no common class
        raise RuntimeUnavailableError(
            f"XLA's compiler for TPUs does not know `{topology}` here: {error}; "
            "run `make tpu-compile`, which fetches `libtpu`, with a topology such as v5e:2x4"
        ) from error


def ahead(
    engine: JaxEngine, devices: list[Any], sharded: bool, compiles: bool
) -> JaxEngine:
    """Return an engine like `engine` for devices that exist only as descriptions."""
    layout = AheadLayout.over(devices, sharded)
    absent = attrs.evolve(
        engine.devices,
        layout=layout,
        processes=Processes(),
        compiled=AheadCompiled(compiles),
    )
    return JaxEngine(absent, engine.facts)


def lower_step(trainer: JaxTrainer, columns: Columns) -> list[dict[str, Any]]:
    """Lower, or compile, all functions of one training step of an `ahead` engine, and return their facts."""
    loss, _, after, gradients = trainer.backward(columns)
    trainer.update(gradients, after, loss, 0.0)
    compiled: Any = trainer.devices.compiled
    return list(compiled.lowered)
