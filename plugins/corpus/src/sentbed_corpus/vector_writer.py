"""Writing of the vectors of a shard."""

from __future__ import annotations

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
"""Subdirectory of the corpus directory for the files of the shards."""
VECTORS_COLUMN = "vector"
"""Name of the column with the vectors in Parquet files."""


def shard_file(
    directory: Path,
    number: int,
    ending: str,
) -> Path:
    """Return the path of a shard's file; sorting by name gives the order of the shards."""
    return directory / VECTORS / f"part-{number:07d}.{ending}"


def write_shard(
    path: Path,
    vectors: NDArray[np.float32],
    kept: Mapping[str, Any],
    request: Request,
    shard: object,
) -> None:
    """Write the vectors of a shard atomically.

    `shard` names the shard in error messages.

    Raises:
        RunError: if a value is not finite or is too large for float16, or the disk is full.
        DataError: if a kept column has no single type that Parquet supports.
    """
    require_finite(vectors, shard)
    output: NDArray[Any] = vectors
    if request.dtype == "float16":
        import numpy as np

        with np.errstate(over="ignore"):
            output = vectors.astype(np.float16)
        if not np.isfinite(output).all():
            raise RunError(
                f"{shard}: a vector has the value {np.abs(vectors).max():.0f}, more than float16 holds; "
                "use float32"
            )
    table = None
    if request.format == "parquet":
        table = _table(output, kept, shard)
    with atomic_file(path) as file:
        if table is not None:
            from pyarrow import parquet

            # Vectors do not repeat and hardly compress, so only the kept columns are compressed.
            compression = dict.fromkeys(kept, "zstd") or "none"
            parquet.write_table(
                table, file, use_dictionary=list(kept), compression=compression
            )
        else:
            write_npy_header(file, len(output), output.shape[1], request.dtype)
            file.write(output.data)


def write_npy_header(
    file: Any,
    rows: int,
    width: int,
    dtype: str,
) -> None:
    """Write the header of a `.npy` file."""
    import numpy as np

    header = {
        "descr": np.dtype(dtype).newbyteorder("<").str,
        "fortran_order": False,
        "shape": (rows, width),
    }
    np.lib.format.write_array_header_1_0(file, header)


def require_finite(vectors: NDArray[np.float32], shard: object = None) -> None:
    """Raise `RunError` if a vector has a value that is not finite; `shard` names the shard in the message."""
    import numpy as np

    if not np.isfinite(vectors).all():
        place = ""
        if shard is not None:
            place = f"{shard}: "
        raise RunError(
            f"{place}the vectors have NaN or infinite values; look at the encoder's weights and precision"
        )


def _table(
    vectors: NDArray[Any],
    kept: Mapping[str, Any],
    shard: object,
) -> Any:
    """Return the vectors and the kept columns as an Arrow table."""
    import pyarrow

    lists = pyarrow.FixedSizeListArray.from_arrays(
        pyarrow.array(vectors.ravel()), vectors.shape[1]
    )
    try:
        return pyarrow.table({**kept, VECTORS_COLUMN: lists})
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{shard}: a column cannot be kept: {error}; give its values one type"
        ) from error


@attrs.frozen
class NpyLayout:
    """Position and number of the vectors in a `.npy` file."""

    start: int
    """Byte offset of the first value."""
    rows: int
    width: int

    @classmethod
    def of(cls, path: Path, dtype: np.dtype[Any]) -> NpyLayout:
        """Read the header of a `.npy` file with values of `dtype`.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if the file is incomplete, or does not hold vectors of this type.
        """
        import numpy as np

        with path.open("rb") as stream:
            try:
                np.lib.format.read_magic(stream)
                header = np.lib.format.read_array_header_1_0(stream)
            # NumPy evaluates the header as Python code, which may raise any exception.
            except Exception as error:
                raise ValueError(f"its header cannot be read: {error}") from error
            start = stream.tell()

        shape, is_fortran_order, stored_dtype = header
        size = path.stat().st_size
        is_matrix = len(shape) == 2 and not is_fortran_order
        is_complete = size == start + math.prod(shape) * dtype.itemsize
        if not is_matrix or stored_dtype != dtype or not is_complete:
            raise ValueError(f"found {shape} values of {stored_dtype} in {size} bytes")
        return cls(start, *shape)


def is_whole(
    path: Path,
    rows: int,
    request: Request,
) -> bool:
    """Whether the file of a shard exists, can be read, and has this number of rows."""
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
