"""A saved encoder that is loaded at first use, for classes that other libraries copy and pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from sentbed import Encoder


@attrs.define
class LazyEncoder:
    """An encoder on disk, loaded on the runtime `cpu` at first use.

    Pickles and copies have only the path and the options. For `trust_remote_code` see `Encoder.load`.
    """

    place: str = attrs.field(converter=str)
    precision: str
    trust_remote_code: bool = False
    _loaded: Encoder | None = attrs.field(
        default=None,
        init=False,
        eq=False,
        repr=False,
    )

    @property
    def encoder(self) -> Encoder:
        """The encoder. Raises `ModelError` if it cannot be loaded, `RecipeError` if the precision is unknown."""
        from sentbed import Encoder

        if self._loaded is None:
            runtime = {"use": "cpu", "precision": self.precision}
            self._loaded = Encoder.load(
                self.place, runtime, trust_remote_code=self.trust_remote_code
            )
        return self._loaded

    def at(
        self,
        place: str | Path,
        precision: str,
        trust_remote_code: bool,
    ) -> LazyEncoder:
        """Return this object if it has this path and these options, otherwise a new object."""
        other = LazyEncoder(place, precision, trust_remote_code)
        if self == other:
            return self
        return other

    def __reduce__(self) -> tuple[type[LazyEncoder], tuple[str, str, bool]]:
        return LazyEncoder, (self.place, self.precision, self.trust_remote_code)


def missing_library(library: str, extra: str) -> ImportError:
    """Return the error for a library that is not installed."""
    return ImportError(
        f"{library} is not installed; install it with `pip install 'sentbed-interop[{extra}]'`"
    )
