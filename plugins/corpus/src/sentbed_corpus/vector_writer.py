"""Writing of a shard's vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.errors import DataError, RunError
from sentbed.helpers import atomic_file

from sentbed_corpus.request import Request

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
    path: Path, vectors: NDArray[np.float32], kept: Mapping[str, Any], request: Request, what: object
) -> None:
    """Write the vectors of the shard `what` atomically.

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
    if request.format == "parquet":
        _write_parquet(path, output, kept, what)
    else:
        with atomic_file(path) as file:
            write_npy_header(file, len(output), output.shape[1], request.dtype)
            file.write(output.data)


def write_npy_header(file: Any, rows: int, width: int, dtype: str) -> None:
    """Write the header of a `.npy` file."""
    import numpy as np

    header = {"descr": np.dtype(dtype).newbyteorder("<").str, "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(file, header)


def require_finite(vectors: NDArray[np.float32], what: object = None) -> None:
    """Raise `RunError` if a vector is not finite."""
    import numpy as np

    if not np.isfinite(vectors).all():
        place = "" if what is None else f"{what}: "
        raise RunError(
            f"{place}the vectors have NaN or infinite values; look at the encoder's weights and precision"
        )


def _write_parquet(path: Path, vectors: NDArray[Any], kept: Mapping[str, Any], what: object) -> None:
    import pyarrow
    from pyarrow import parquet

    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
    try:
        table = pyarrow.table({**kept, VECTORS_COLUMN: lists})
    except pyarrow.ArrowException as error:
        raise DataError(f"{what}: a column cannot be kept: {error}; give its values one type") from error
    # Vectors neither repeat nor compress.
    packed = dict.fromkeys(kept, "zstd") or "none"
    with atomic_file(path) as file:
        parquet.write_table(table, file, use_dictionary=list(kept), compression=packed)


def is_whole(path: Path, rows: int, request: Request) -> bool:
    """Whether a shard's file exists, can be read and has the expected number of rows."""
    import numpy as np

    if not path.is_file():
        return False
    try:
        if request.format == "npy":
            found = np.load(path, mmap_mode="r")
            return bool(found.ndim == 2 and len(found) == rows and found.dtype == np.dtype(request.dtype))
        from pyarrow import parquet

        return bool(parquet.read_metadata(path).num_rows == rows)
    except (ValueError, OSError):
        # Arrow's exceptions are ValueErrors.
        return False
