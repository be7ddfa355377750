"""Devices in a row, and what of an array each of them holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sentbed_hardware._jax.compiling import fitting

AXIS = "data"


@attrs.frozen
class Layout:
    """Where arrays lie. Rows of a batch are always spread; weights are where `sharded`."""

    mesh: Mesh
    sharded: bool

    @classmethod
    def over(cls, devices: list[Any], sharded: bool) -> Layout:
        """Return the layout over these devices."""
        return cls(Mesh(np.array(devices), (AXIS,)), sharded and len(devices) > 1)

    @property
    def whole(self) -> NamedSharding:
        """Each device holds all of it."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def rows(self) -> NamedSharding:
        """Each device holds its share of the first axis."""
        return NamedSharding(self.mesh, PartitionSpec(AXIS))

    def weight(self, shape: tuple[int, ...]) -> NamedSharding:
        """Return how a weight of this shape lies: spread over its longest axis that divides evenly."""
        if not self.sharded:
            return self.whole
        count = self.mesh.size
        fitting = [axis for axis, size in enumerate(shape) if size % count == 0 and size >= count]
        if not fitting:
            return self.whole
        longest = max(fitting, key=lambda axis: shape[axis])
        return NamedSharding(self.mesh, PartitionSpec(*(None,) * longest, AXIS))

    def weights(self, arrays: Mapping[str, Any]) -> dict[str, NamedSharding]:
        """Return how each of these weights lies."""
        return {name: self.weight(np.shape(value)) for name, value in arrays.items()}

    def put(self, arrays: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Put weights on the devices."""
        return {name: self.place(value, self.weight(np.shape(value))) for name, value in arrays.items()}

    def place(self, value: Any, sharding: Any) -> jax.Array:
        """Put one array, which every process holds whole, on the devices."""
        host = np.asarray(value)
        with fitting():
            return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    def key(self, key: jax.Array) -> jax.Array:
        """Put a random key, as numbers, on every device."""
        return self.place(jax.random.key_data(key), self.whole)

    def fetch(self, array: jax.Array) -> np.ndarray[Any, Any]:
        """Return the whole of an array on the host, in every process."""
        if not array.is_fully_addressable:
            array = jax.jit(lambda value: value, out_shardings=self.whole)(array)
        # What a device could not hold shows here first: it computes while the host goes on.
        with fitting():
            return np.asarray(array)
