"""Writing of a shard's vectors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.errors import DataError, RunError
from sentbed.helpers import atomic_file

from sentbed_corpus.encoding_request import Request

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VECTORS = "vectors"
"""Subdirectory of the shards in the corpus directory."""
VECTORS_COLUMN = "vector"
"""Column of the vectors in Parquet files."""


def shard_file(directory: Path, number: int, ending: str) -> Path:
    """Return the file of a shard; names sort in the order of the numbers."""
    return directory / VECTORS / f"part-{number:07d}.{ending}"


def write_shard(
    path: Path,
    vectors: NDArray[np.float32],
    kept: Mapping[str, Any],
    request: Request,
    what: object,
) -> str:
    """Write the vectors of the shard `what` atomically; return the SHA-256 of the file.

    Raises:
        RunError: if vectors are not finite, or the disk is full.
        DataError: if a kept column has no type that Parquet supports.
    """
    require_finite(vectors, what)
    output: NDArray[Any] = vectors
    if request.dtype == "float16":
        import numpy as np

        with np.errstate(over="ignore"):
            output = vectors.astype(np.float16)
        if not np.isfinite(output).all():
            raise RunError(
                f"{what}: a vector has the value {np.abs(vectors).max():.0f}, more than float16 holds; "
                "use float32"
            )
    table = None
    if request.format == "parquet":
        table = _table(output, kept, what)
    with atomic_file(path) as file:
        if table is not None:
            from pyarrow import parquet

            # Vectors neither repeat nor compress.
            packed = dict.fromkeys(kept, "zstd") or "none"
            parquet.write_table(
                table, file, use_dictionary=list(kept), compression=packed
            )
        else:
            write_npy_header(file, len(output), output.shape[1], request.dtype)
            file.write(output.data)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has `readinto`


def write_npy_header(file: Any, rows: int, width: int, dtype: str) -> None:
    """Write the header of a `.npy` file."""
    import numpy as np

    header = {
        "descr": np.dtype(dtype).newbyteorder("<").str,
        "fortran_order": False,
        "shape": (rows, width),
    }
    np.lib.format.write_array_header_1_0(file, header)


def require_finite(vectors: NDArray[np.float32], what: object = None) -> None:
    """Raise `RunError` if a vector is not finite."""
    import numpy as np

    if not np.isfinite(vectors).all():
        place = ""
        if what is not None:
            place = f"{what}: "
        raise RunError(
            f"{place}the vectors have NaN or infinite values; look at the encoder's weights and precision"
        )


def _table(vectors: NDArray[Any], kept: Mapping[str, Any], what: object) -> Any:
    """Return vectors and kept columns as an Arrow table."""
    import pyarrow

    lists = pyarrow.FixedSizeListArray.from_arrays(
        pyarrow.array(vectors.ravel()), vectors.shape[1]
    )
    try:
        return pyarrow.table({**kept, VECTORS_COLUMN: lists})
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{what}: a column cannot be kept: {error}; give its values one type"
        ) from error


@attrs.frozen
class NpyLayout:
    """The place of the vectors in a `.npy` file."""

    start: int
    """Place of the first value."""
    rows: int
    width: int

    @classmethod
    def of(cls, path: Path, dtype: np.dtype[Any]) -> NpyLayout:
        """Read the header of a file of `dtype`. Raises `OSError`, or `ValueError` if it is not whole."""
        import numpy as np

        with path.open("rb") as stream:
            try:
                np.lib.format.read_magic(stream)
                shape, turned, stored_dtype = np.lib.format.read_array_header_1_0(
                    stream
                )
            except (
                Exception
            ) as error:  # NumPy evaluates the header, which may fail at anything
                raise ValueError(f"its header cannot be read: {error}") from error
            start = stream.tell()

        size = start + math.prod(shape) * dtype.itemsize
        if (
            len(shape) != 2
            or turned
            or stored_dtype != dtype
            or path.stat().st_size != size
        ):
            raise ValueError(
                f"found {shape} values of {stored_dtype} in {path.stat().st_size} bytes"
            )
        return cls(start, *shape)


def is_whole(path: Path, rows: int, request: Request) -> bool:
    """Whether a shard's file exists, can be read and has the expected number of rows."""
    import numpy as np

    if not path.is_file():
        return False
    try:
        if request.format == "npy":
            return NpyLayout.of(path, np.dtype(request.dtype)).rows == rows
        from pyarrow import parquet

        return bool(parquet.read_metadata(path).num_rows == rows)
    except (ValueError, OSError):
        # Arrow's exceptions are ValueErrors.
        return False
