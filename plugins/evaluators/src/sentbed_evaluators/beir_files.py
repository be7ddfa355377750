"""Reader of folders in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from sentbed import DataError
from sentbed.errors import suggest
from sentbed.helpers import sha256
from sentbed_common import (
    json_object,
    require_number,
    require_string,
    table_rows,
    text_lines,
)

from sentbed_evaluators.retrieval_collection import Collection

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


def read_beir(folder: Path, split: str) -> Collection:
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
    documents = _read_texts(corpus)
    queries = _read_texts(texts)
    judgements = _read_judgements(judged)

    for query in judgements:
        if query not in queries:
            raise DataError(
                f"query `{query}` is not in `{texts}`; take the two files from the same release",
                judged,
            )

    numbers = {name: number for number, name in enumerate(documents)}
    relevant = _relevant_documents(judgements, numbers)
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
        "document": "title + text",
        "text": "as in the file, stripped",
        "judgements": sum(map(len, relevant.values())),
        "queries_without_judgement": len(queries.keys() - judgements.keys()),
        "queries_without_relevant": len(judgements) - len(relevant),
        "document_of_same_id": "left out",
        "data": [sha256(corpus), sha256(texts), sha256(judged)],
    }
    note = ""
    missing = len(numbers) - len(documents)
    if missing:
        note = f"{missing} relevant documents are not in the corpus, and count as not found"

    return Collection(
        [queries[query] for query in relevant],
        [document.strip() for document in documents.values()],
        list(relevant.values()),
        [numbers.get(query, -1) for query in relevant],
        protocol,
        note,
    )


def _relevant_documents(
    judgements: Mapping[str, Mapping[str, int]], numbers: dict[str, int]
) -> dict[str, dict[int, int]]:
    """Return query -> its relevant documents, each as number -> grade. Queries without any are left out.

    `numbers` maps the ids of documents to their numbers. A relevant document that is missing from it is added
    with the next number.
    """
    relevant: dict[str, dict[int, int]] = {}
    for query, grades in judgements.items():
        for name, grade in grades.items():
            if grade <= 0:
                continue

            number = numbers.setdefault(name, len(numbers))
            relevant_to_query = relevant.setdefault(query, {})
            relevant_to_query[number] = grade

    return relevant


def _read_texts(path: Path) -> dict[str, str]:
    """Return documents or queries by their id; a document's title stands before its text."""
    texts: dict[str, str] = {}
    for line, content in text_lines(path):
        if not content.strip():
            continue
        row = json_object(content, path, line)
        name = require_string(row.get("_id"), "_id", path, line)
        text = require_string(row.get("text"), "text", path, line)
        # BEIR's own loader treats a missing title as an empty one.
        title = row.get("title")
        if title is not None:
            text = f"{require_string(title, 'title', path, line)} {text}"

        if name in texts:
            raise DataError(
                f"the `_id` {name!r} occurs a second time; remove one of the two",
                path,
                line,
            )
        texts[name] = text

    if not texts:
        raise DataError("the file is empty; check the download", path)
    return texts


def _read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Return, for each query in the order of the file, the grades of the judged documents."""
    judgements: dict[str, dict[str, int]] = {}
    for line, (query, document, score) in table_rows(str(path), _COLUMNS):
        grade = require_number(score, "score", path, line)
        if grade != int(grade):
            raise DataError(
                f"the score is {score!r}, but grades are whole numbers (0: not relevant); repair the line",
                path,
                line,
            )

        grades = judgements.setdefault(query, {})
        earlier = grades.setdefault(document, int(grade))
        if earlier != grade:
            raise DataError(
                f"document `{document}` has grade {grade:g} for query `{query}` here and {earlier} above; "
                "remove one of the two",
                path,
                line,
            )

    return judgements
