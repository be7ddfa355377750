"""Reader of folders in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from sentbed import DataError
from sentbed.errors import suggest

from sentbed_evaluators.json_lines import read_objects, text_of
from sentbed_evaluators.retrieval_collection import Collection
from sentbed_evaluators.text_lines import Hashes, column_places, lines

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
_COLUMNS = ("query-id", "corpus-id", "score")


def problems(folder: Path, split: str) -> Iterator[str]:
    """Yield a message for each missing file, with its path."""
    for name in (CORPUS, QUERIES):
        if not (folder / name).is_file():
            yield (
                f"`{folder}` has no `{name}`, but a folder in BEIR's layout was expected ({CORPUS}, "
                f"{QUERIES}, qrels/{split}.tsv); put it there, or name the folder that holds it"
            )
    if not (folder / "qrels" / f"{split}.tsv").is_file():
        there = sorted(path.stem for path in folder.glob("qrels/*.tsv"))
        choice = " Put it there, or convert the judgements."
        if there:
            choice = suggest(split, there)
        yield f"`{folder}` has no `qrels/{split}.tsv`, the relevance judgements of `split`.{choice}"


def read_beir(
    folder: Path,
    split: str,
    *,
    title: bool,
) -> Collection:
    """Read all documents of the corpus, and the queries that have a relevant document.

    Queries are in the order of the judgements. As in BEIR, a document that is judged relevant but missing from
    the corpus counts as relevant and is never retrieved; and the document with a query's id is left out of that
    query's results. Unlike in BEIR, a repeated id is an error, and so are two different judgements of a document
    for one query.

    Raises:
        DataError: if a file is missing or malformed; with file and line.
    """
    corpus, texts = folder / CORPUS, folder / QUERIES
    judged = folder / "qrels" / f"{split}.tsv"
    hashes: Hashes = {}
    documents = _read_corpus(corpus, hashes, title=title)
    queries = _read_texts(texts, hashes)
    judgements = _read_judgements(judged, hashes)

    for query, (line, _) in judgements.items():
        if query not in queries:
            raise DataError(
                f"query `{query}` is not in `{texts}`; take the two files from the same release",
                judged,
                line,
            )

    numbers = {name: number for number, name in enumerate(documents)}
    relevant, missing = _relevant_documents(judgements, numbers)
    lowest = min(chain.from_iterable(relevant.values()), default=len(documents))
    if lowest >= len(documents):
        raise DataError(
            f"no judgement says that a document of `{corpus}` is relevant; "
            f"take the two files from the same release",
            judged,
        )

    protocol: dict[str, Any] = {
        "id": "beir",
        "split": split,
        "document": "title + text" if title else "text",
        "text": "as in the file, stripped",
        "judgements": sum(map(len, relevant.values())),
        "queries_without_judgement": len(queries.keys() - judgements.keys()),
        "queries_without_relevant": len(judgements) - len(relevant),
        "document_of_same_id": "left out",
        "data": [hashes[corpus], hashes[texts], hashes[judged]],
    }
    note = ""
    if missing:
        name, query = next(iter(missing.items()))
        note = (
            f"{len(missing)} relevant documents are not in the corpus (the first is `{name}`, for query "
            f"`{query}`) and count as not found"
        )

    return Collection(
        [queries[query] for query in relevant],
        list(documents.values()),
        list(relevant.values()),
        [numbers.get(query, -1) for query in relevant],
        protocol,
        note,
    )


def _relevant_documents(
    judgements: Mapping[str, tuple[int, Mapping[str, int]]], numbers: dict[str, int]
) -> tuple[dict[str, dict[int, int]], dict[str, str]]:
    """Return query -> its relevant documents, each as number -> grade. Queries without any are left out.

    `numbers` maps the ids of documents to their numbers. A relevant document that is missing from it is added
    with the next number. The second result maps each such document to a query to which it is relevant.
    """
    relevant: dict[str, dict[int, int]] = {}
    missing: dict[str, str] = {}
    for query, (_, grades) in judgements.items():
        for name, grade in grades.items():
            if grade <= 0:
                continue
            if name not in numbers:
                numbers[name] = len(numbers)
                missing[name] = query
            relevant.setdefault(query, {})[numbers[name]] = grade
    return relevant, missing


def _read_corpus(
    path: Path,
    hashes: Hashes,
    *,
    title: bool,
) -> dict[str, str]:
    """Return the documents by their id."""
    documents: dict[str, str] = {}
    for line, name, row in _rows(path, documents, hashes):
        text = text_of(row, "text", path, line)
        # BEIR's own loader treats a missing title as an empty one.
        head = ""
        if title and row.get("title") is not None:
            head = text_of(row, "title", path, line)
        documents[name] = f"{head} {text}".strip()
    return documents


def _read_texts(path: Path, hashes: Hashes) -> dict[str, str]:
    """Return the queries by their id."""
    queries: dict[str, str] = {}
    for line, name, row in _rows(path, queries, hashes):
        queries[name] = text_of(row, "text", path, line)
    return queries


def _rows(
    path: Path,
    earlier: Mapping[str, str],
    hashes: Hashes,
) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield line number, id and JSON object of each line.

    Raises `DataError` if an id is already in `earlier`, or the file is empty. The caller adds the ids to
    `earlier`.
    """
    for line, row in read_objects(path, hashes=hashes):
        name = text_of(row, "_id", path, line)
        if name in earlier:
            raise DataError(
                f"the `_id` {name!r} occurs a second time; remove one of the two",
                path,
                line,
            )
        yield line, name, row
    if not earlier:
        raise DataError("the file is empty; check the download", path)


def _read_judgements(
    path: Path, hashes: Hashes
) -> dict[str, tuple[int, dict[str, int]]]:
    """Return, for each query in the order of the file, its first line and the grades of the judged documents."""
    rows = lines(path, hashes=hashes)
    header = next(rows, (1, None))[1]
    if header is None:
        raise DataError("the file is empty; check the download", path)
    names = header.split("\t")
    advice = f"the first line names {', '.join(_COLUMNS)}, with tabs between them"
    places = column_places(_COLUMNS, names, path, advice)

    judgements: dict[str, tuple[int, dict[str, int]]] = {}
    for line, content in rows:
        fields = content.split("\t")
        if len(fields) != len(names):
            raise DataError(
                f"the line has {len(fields)} columns, the header {len(names)}; repair the line",
                path,
                line,
            )
        query, document, score = (fields[place] for place in places)
        try:
            # `int` reads "1_0" as 10, as in Python source; in a data file it is a typing error.
            grade = int(score.replace("_", "?"))
        except ValueError as error:
            raise DataError(
                f"the score is {score!r}, but grades are whole numbers (0: not relevant); repair the line",
                path,
                line,
            ) from error
        grades = judgements.setdefault(query, (line, {}))[1]
        earlier = grades.setdefault(document, grade)
        if earlier != grade:
            raise DataError(
                f"document `{document}` has grade {grade} for query `{query}` here and {earlier} above; "
                f"remove one of the two",
                path,
                line,
            )
    if not judgements:
        raise DataError(
            "the file has a header and no judgement below it; check the download", path
        )
    return judgements
