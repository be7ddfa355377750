"""What is known of a file that a data source reads: the collection that it belongs to, and how to get it."""

from __future__ import annotations

from itertools import product

from sentbed.errors import DataError
from sentbed_common import KnownData, KnownFile, read_collections


def with_remedy(error: DataError, location: str) -> str:
    """Return an error's message; for a file of a known collection, also how to get the file."""
    match = known_file(location)
    if match is None:
        return str(error)

    collection, _ = match
    return f"{error}; {collection.how_to_get}"


def known_file(location: str) -> tuple[KnownData, KnownFile] | None:
    """Return the collection and the known file that a location `data:PATH` names; None if it names none."""
    for collection in read_collections("sentbed_data"):
        for place, file in product(collection.places, collection.files):
            path = f"{place}/{file.path}".removeprefix("./")
            if location == f"data:{path}":
                return collection, file

    return None
