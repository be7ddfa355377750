"""A one-dimensional mesh of devices, and the placement of arrays on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sentbed_tpu._jax.compiled_functions import fitting

AXIS = "data"


@attrs.frozen
class Layout:
    """The placement of arrays. Rows of a batch are always sharded, weights only if `sharded`."""

    mesh: Mesh
    sharded: bool

    @classmethod
    def over(cls, devices: list[Any], sharded: bool) -> Layout:
        """Return the layout over these devices."""
        return cls(Mesh(np.array(devices), (AXIS,)), sharded and len(devices) > 1)

    @property
    def whole(self) -> NamedSharding:
        """The sharding in which each device holds the whole array."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def rows(self) -> NamedSharding:
        """The sharding in which each device holds its share of the first axis."""
        return NamedSharding(self.mesh, PartitionSpec(AXIS))

    def weight(self, shape: tuple[int, ...]) -> NamedSharding:
        """Return the sharding of a weight of this shape, over its longest axis that divides evenly."""
        if not self.sharded:
            return self.whole

        count = self.mesh.size
        longest = None
        for axis, size in enumerate(shape):
            divides_evenly = size >= count and size % count == 0
            if divides_evenly and (longest is None or size > shape[longest]):
                longest = axis

        if longest is None:
            return self.whole

        before = [None] * longest
        return NamedSharding(self.mesh, PartitionSpec(*before, AXIS))

    def weights(self, arrays: Mapping[str, Any]) -> dict[str, NamedSharding]:
        """Return the sharding of each of these weights."""
        return {name: self.weight(np.shape(value)) for name, value in arrays.items()}

    def put(self, arrays: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Put weights on the devices."""
        shardings = self.weights(arrays)
        return {name: self.place(arrays[name], shardings[name]) for name in arrays}

    def place(self, value: Any, sharding: Any) -> jax.Array:
        """Put one array, which every process holds whole, on the devices."""
        host = np.asarray(value)
        with fitting():
            return jax.make_array_from_callback(
                host.shape, sharding, lambda index: host[index]
            )

    def key(self, key: jax.Array) -> jax.Array:
        """Put a random key, as numbers, on every device."""
        return self.place(jax.random.key_data(key), self.whole)

    def fetch(self, array: jax.Array) -> np.ndarray[Any, Any]:
        """Return the whole of an array on the host, in every process."""
        if not array.is_fully_addressable:
            array = jax.jit(lambda value: value, out_shardings=self.whole)(array)
        # Computation is asynchronous, so a device's lack of memory shows here first.
        with fitting():
            return np.asarray(array)

    def fetch_all(
        self, arrays: Mapping[str, jax.Array]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the whole of each array on the host, in every process."""
        return {name: self.fetch(value) for name, value in arrays.items()}
