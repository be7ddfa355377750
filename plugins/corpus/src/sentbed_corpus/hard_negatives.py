"""Mining of hard negatives: for each anchor, similar candidates that are not its positives.

Texts and vectors are in memory, which serves up to some million texts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder, __version__
from sentbed.errors import DataError, RunError, listed
from sentbed.helpers import sha256, write_atomic
from sentbed.protocols import Dataset, DataSource, EncoderRecipe, Runtime
from sentbed.tools import (
    Plugins,
    load_plugins,
    naming_components,
    saved_recipe,
    unstructure,
)
from sentbed_common import fingerprint_of, nearest, unit_rows

from sentbed_corpus.component_releases import component_releases
from sentbed_corpus.input_files import Source, find_files
from sentbed_corpus.input_rows import read_shard
from sentbed_corpus.input_shards import cut
from sentbed_corpus.negative_rules import Rules, Selection
from sentbed_corpus.plurals import count
from sentbed_corpus.task_prompt import require_prompt, under_prompt
from sentbed_corpus.vector_writer import require_finite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 16_384
"""Number of texts that are encoded at a time. Also the number of anchors in a block, and the number of candidates
that are compared with a block of anchors at a time."""
SCHEMA = 1
RECORD = ".json"
"""Suffix of the record of how the negatives were mined, appended to the name of the output."""

Bar = Callable[[int, str], AbstractContextManager[Callable[[int], Any]]]
"""Context manager of a progress bar. Its arguments are the total and the name of the step; it yields the
function that advances the bar."""


@attrs.frozen(kw_only=True)
class MiningRequest:
    """Everything that determines what is mined."""

    encoder: str
    """Directory of a saved encoder."""
    data: DataSource
    """Data source with the columns `anchor` and `positive`."""
    output: Path
    """Path of a `.tsv` or `.jsonl` file."""
    runtime: Runtime
    rules: Rules = attrs.field(factory=Rules)
    corpus: tuple[str, ...] = ()
    """Files, directories and patterns with further candidates, as for `encode_corpus`."""
    column: str = "text"
    """Column with the text in JSONL and Parquet files of the corpus."""
    corpus_only: bool = False
    """Whether only texts of the corpus are candidates; otherwise positives of other rows are, too."""
    require_all: bool = False
    """Whether a row with too few negatives is an error; otherwise the row is left out."""
    overwrite: bool = False
    """Whether an existing output is replaced."""
    trust_remote_code: bool = False
    """See `Encoder.load`."""
    anchor_prompt: str = ""
    """Key in the encoder's `task_prompts` for anchors, such as `query`; if empty, the encoder's usual prompt."""
    candidate_prompt: str = ""
    """Key in the encoder's `task_prompts` for positives and candidates, such as `document`; if empty, the
    encoder's usual prompt."""
    instruction: str = ""
    """Text in the place of `{instruction}` in these prompts."""


@attrs.frozen
class Mined:
    """Result of mining."""

    rows: int
    """Number of rows in the output."""
    left_out: int
    """Number of rows of the data that have too few negatives and are not in the output."""
    columns: tuple[str, ...]
    """Columns of the output: `anchor`, `positive`, `negative`, `negative_2`, ..."""
    record: Path
    """JSON file that describes how the negatives were mined."""


def mine_hard_negatives(
    request: MiningRequest,
    bar: Bar = lambda _total, _what: nullcontext(lambda _: None),
    say: Callable[[str], object] = lambda _: None,
) -> Mined:
    """Write each row of the data with its hard negatives to `request.output`, and a record beside it.

    The candidates are the distinct texts of the positives and of the corpus; with `corpus_only`, those of the
    corpus alone. Equal anchors share their positives and get the same negatives. Neither a positive of the anchor
    nor the anchor's own text is a negative of the anchor. Both files get their names when they are complete.
    `say` is called with remarks before anything is encoded.

    Raises:
        RunError: if the output exists or cannot be written, the rules contradict each other, or a vector is
            zero or not finite.
        DataError: if the data or the corpus cannot be used, a text cannot be written in the format of the
            output, or no row has enough negatives.
        ModelError: if the encoder cannot be loaded.
    """
    plugins = load_plugins()
    _require_possible(request)
    recipe = saved_recipe(Path(request.encoder), plugins, request.trust_remote_code)
    for key in (request.anchor_prompt, request.candidate_prompt):
        require_prompt(recipe, key)
    remark = _remark_on_similarity(recipe)
    if remark is not None:
        say(remark)
    dataset = _open(request.data)

    store: list[str] = []
    corpus = _Corpus.read(request, store)
    texts_of_corpus = len(store)
    _store_pairs(dataset, request, store)
    pairs = _Pairs.of(store, texts_of_corpus, request.corpus_only)
    if not pairs.candidates:
        raise DataError(
            "there are no candidates: every text of the corpus is blank; name another corpus"
        )

    encoder = Encoder.load(
        request.encoder,
        request.runtime,
        plugins,
        trust_remote_code=request.trust_remote_code,
    )
    with naming_components(encoder.recipe):
        vectors, anchor_vectors, anchors = _encode_pairs(
            encoder, request, store, pairs, bar
        )
    selection = _search(vectors, anchor_vectors, anchors, pairs, request.rules, bar)
    lines, similarity = _rows(request, dataset, store, pairs, selection)
    written = len(lines)
    columns = _columns(request.rules.negatives)
    if request.output.suffix.lower() == ".tsv":
        lines.insert(0, "\t".join(columns))
    content = "".join(f"{line}\n" for line in lines)

    record = {
        "schema": SCHEMA,
        "version": __version__,
        "output": {
            "file": request.output.name,
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
            "rows": written,
            "columns": list(columns),
        },
        "encoder": _record_of_encoder(encoder, request, plugins),
        "data": _record_of_data(request.data, dataset),
        "corpus": corpus.record(request),
        "rules": attrs.asdict(request.rules),
        "anchors": len(pairs.anchors),
        "candidates": pairs.candidates,
        "left_out": {
            "rows with fewer negatives": len(dataset) - written,
            "positives and anchors among the candidates": len(pairs.excluded),
            "candidates by rule": dict(selection.left_out),
        },
        "similarity": similarity,
    }
    path = request.output.with_name(request.output.name + RECORD)
    text = json.dumps(record, indent=2, ensure_ascii=False, default=str)
    # The record comes first, so that no rows are without one.
    write_atomic(path, f"{text}\n")
    write_atomic(request.output, content)
    return Mined(written, len(dataset) - written, columns, path)


def _remark_on_similarity(recipe: EncoderRecipe) -> str | None:
    """Return a remark if the encoder's similarity is not the cosine; otherwise None.

    Negatives are always mined by the cosine.
    """
    similarity = recipe.similarity
    if similarity is None or similarity.formula == "cosine":
        return None
    return (
        f"negatives are mined by the cosine, but the encoder's similarity is `{similarity.name}`: texts that "
        "are near by one may be far by the other; margins and scores of the rules are cosines"
    )


def _require_possible(request: MiningRequest) -> None:
    """Raise `RunError` if the output cannot be written, or the rules contradict each other."""
    output = request.output
    if output.suffix.lower() not in (".tsv", ".jsonl"):
        raise RunError(
            f"`{output}` ends in {output.suffix!r}, expected a `.tsv` or a `.jsonl` file"
        )
    if output.exists() and not (request.overwrite and output.is_file()):
        advice = "choose another place"
        if not output.is_dir():
            advice += ", or replace it with `--overwrite`"
        raise RunError(f"`{output}` exists; {advice}")
    if request.corpus_only and not request.corpus:
        raise RunError("`--corpus-only` needs a corpus; name one with `--corpus`")
    problems = list(request.rules.problems())
    if problems:
        raise RunError("; ".join(problems))


def _open(source: DataSource) -> Dataset:
    """Open the data.

    Raises `DataError` if a column is missing, there are no rows, or the texts change between epochs.
    """
    missing = []
    for name in ("anchor", "positive"):
        if name not in source.columns:
            missing.append(f"`{name}`")
    if missing:
        raise DataError(
            f"`{source.name}` has no column {' and '.join(missing)}, it has {listed(source.columns)}; take a "
            "source of pairs, such as `pairs`, and name its columns with `--set anchor=NAME` and "
            "`--set positive=NAME`"
        )
    dataset = source.open()
    if dataset.varies:
        raise DataError(
            f"the texts of `{source.name}` change from epoch to epoch, and negatives are mined once; take a "
            "source whose texts stay"
        )
    if not len(dataset):
        raise DataError(f"`{source.name}` has no rows; name data with pairs of texts")
    return dataset


@attrs.frozen
class _Corpus:
    """Files with further candidates."""

    sources: tuple[Source, ...] = ()
    blank: int = 0
    """Number of rows whose text is blank, so that they are not candidates."""

    @classmethod
    def read(cls, request: MiningRequest, store: list[str]) -> _Corpus:
        """Add the texts of the corpus to the store.

        Raises:
            DataError: if a text cannot be used, with its file and line.
        """
        if not request.corpus:
            return cls()

        # All files are checked before the first text is stored.
        sources = []
        shards = []
        for file in find_files(request.corpus, request.output):
            source, shards_of_file = cut(file, WINDOW, request.column)
            sources.append(source)
            shards += shards_of_file

        blank = 0
        for shard in shards:
            texts, _ = read_shard(shard, request.column, ())
            kept = []
            for row, text in enumerate(texts, shard.row + 1):
                if text.strip():
                    path = shard.source.path
                    _require_writable(text, request.output, f"row {row}", path)
                    kept.append(text)
            blank += len(texts) - len(kept)
            store += kept
        return cls(tuple(sources), blank)

    def record(self, request: MiningRequest) -> dict[str, Any] | None:
        """Return the part of the record that describes the corpus; None without a corpus."""
        if not self.sources:
            return None
        files = []
        for source in self.sources:
            files.append(
                {"path": source.path, "blake2b": source.digest, "rows": source.rows}
            )
        return {
            "files": files,
            "column": request.column,
            "only": request.corpus_only,
            "blank": self.blank,
        }


def _store_pairs(
    dataset: Dataset,
    request: MiningRequest,
    store: list[str],
) -> None:
    """Add all positives to the store, then all anchors. Raises `DataError` if any value is not a text."""
    for column in ("positive", "anchor"):
        for first, texts in _blocks(dataset, column):
            for row, text in enumerate(texts, first + 1):
                if not isinstance(text, str):
                    raise DataError(
                        f"row {row} of `{request.data.name}` has {text!r:.80} in the column `{column}`, "
                        "expected a text; mend the data"
                    )
                _require_writable(
                    text, request.output, f"row {row}, column `{column}`", None
                )
            store += texts


def _blocks(dataset: Dataset, column: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the texts of a column in blocks of rows, each with the index of its first row."""
    for first in range(0, len(dataset), WINDOW):
        rows = range(first, min(first + WINDOW, len(dataset)))
        yield first, list(dataset.rows(rows)[column])


def _require_writable(
    text: str,
    output: Path,
    where: str,
    file: object,
) -> None:
    """Raise `DataError` for a text with a tab or line break if the output is a TSV file."""
    if output.suffix.lower() != ".tsv" or {"\t", "\n", "\r"}.isdisjoint(text):
        return
    separator = "line break"
    if "\t" in text:
        separator = "tab"
    raise DataError(
        f"{where}: the text {text!r:.60} has a {separator}, which a `.tsv` file cannot hold; write a "
        "`.jsonl` file",
        file,
    )


@attrs.frozen(eq=False)
class _Pairs:
    """The distinct texts of a store, and which of them are candidates, anchors and positives."""

    texts: NDArray[np.int64]
    """Number in the store of each distinct text. The candidates come first, then the positives that are no
    candidates, then the anchors that are neither."""
    candidates: int
    """Number of candidates; they are the first entries of `texts`."""
    anchors: NDArray[np.int64]
    """Index in `texts` of each distinct anchor."""
    anchor_of_row: NDArray[np.int64]
    """`(rows,)`: index in `anchors` of each row's anchor."""
    positives: NDArray[np.int64]
    """`(pairs, 2)`: each distinct pair of an anchor, as index in `anchors`, and one of its positives, as index in
    `texts`; sorted by anchor."""
    excluded: NDArray[np.int64]
    """`(pairs, 2)`: each pair of an anchor, as index in `anchors`, and a candidate that must not be its negative,
    as index in `texts`; sorted by anchor."""

    @classmethod
    def of(
        cls,
        store: list[str],
        corpus: int,
        corpus_only: bool,
    ) -> _Pairs:
        """Return the pairs of a store.

        The store has `corpus` texts of the corpus, then the positive of each row, then the anchor of each row.
        """
        import numpy as np

        texts, indices = _distinct(store)
        rows = (len(store) - corpus) // 2
        positive_of_row = indices[corpus : corpus + rows]
        text_of_anchor = indices[corpus + rows :]
        # Distinct texts are in the order of the store, so candidates come first.
        end_of_candidates = corpus
        if not corpus_only:
            end_of_candidates += rows
        candidates = int(np.searchsorted(texts, end_of_candidates))

        # A pair of an anchor and a text is coded as one whole number, so that pairs are sorted and made distinct.
        anchors, anchor_of_row = np.unique(text_of_anchor, return_inverse=True)
        keys = np.unique(anchor_of_row * len(texts) + positive_of_row)
        anchor_itself = np.arange(len(anchors)) * len(texts) + anchors
        excluded_keys = np.union1d(keys, anchor_itself)
        positives = np.stack(np.divmod(keys, len(texts)), axis=1)
        excluded = np.stack(np.divmod(excluded_keys, len(texts)), axis=1)
        excluded = excluded[excluded[:, 1] < candidates]
        return cls(
            texts,
            candidates,
            anchors,
            anchor_of_row.astype(np.int64),
            positives,
            excluded,
        )


def _encode_pairs(
    encoder: Encoder,
    request: MiningRequest,
    store: list[str],
    pairs: _Pairs,
    bar: Bar,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Return the vectors of all texts, the array with the vectors of the anchors, and each anchor's row in it.

    If anchors and candidates have the same prompt, the second array is the first. Otherwise, the second array has
    only the vectors of the anchors, encoded under their own prompt.
    """
    import numpy as np

    for_candidates = under_prompt(
        encoder, request.candidate_prompt, request.instruction
    )
    for_anchors = under_prompt(encoder, request.anchor_prompt, request.instruction)
    vectors = _encode(for_candidates, store, pairs.texts, bar)
    if request.anchor_prompt == request.candidate_prompt:
        return vectors, vectors, pairs.anchors
    numbers = pairs.texts[pairs.anchors]
    queries = _encode(for_anchors, store, numbers, bar)
    return vectors, queries, np.arange(len(numbers))


def _encode(
    encoder: Encoder,
    store: Sequence[str],
    numbers: NDArray[np.int64],
    bar: Bar,
) -> NDArray[np.float32]:
    """Return the vectors of the texts with these numbers, divided by their norms."""
    import numpy as np

    parts = []
    with bar(len(numbers), "encode") as advance:
        for start in range(0, len(numbers), WINDOW):
            texts = [store[number] for number in numbers[start : start + WINDOW]]
            vectors = encoder.encode(texts, progress=advance)
            require_finite(vectors)
            is_nonzero = vectors.any(axis=1)
            if not is_nonzero.all():
                text = texts[int(np.argmin(is_nonzero))]
                raise RunError(
                    f"the vector of {text!r:.60} is zero, so it has no cosine with other vectors; "
                    "check the pooler and the weights"
                )
            parts.append(unit_rows(vectors))
    return np.concatenate(parts)


def _distinct(
    texts: Sequence[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of the first occurrence of each distinct text, and each text's index among these."""
    import numpy as np

    index_of_text: dict[str, int] = {}
    numbers: list[int] = []
    indices: list[int] = []
    for number, text in enumerate(texts):
        if text not in index_of_text:
            index_of_text[text] = len(numbers)
            numbers.append(number)
        indices.append(index_of_text[text])
    return np.array(numbers), np.array(indices)


def _search(
    vectors: NDArray[np.float32],
    anchor_vectors: NDArray[np.float32],
    anchors: NDArray[np.int64],
    pairs: _Pairs,
    rules: Rules,
    bar: Bar,
) -> Selection:
    """Return the negatives of all anchors.

    The vector of anchor i is row `anchors[i]` of `anchor_vectors`. All vectors have length 1.
    """
    import numpy as np

    def candidates() -> Iterator[NDArray[np.float32]]:
        for start in range(0, pairs.candidates, WINDOW):
            yield vectors[start : min(start + WINDOW, pairs.candidates)]

    total = len(pairs.anchors)
    places = np.empty((total, rules.negatives), np.int64)
    similarities = np.empty((total, rules.negatives))
    positives = np.empty(total)
    left_out: Counter[str] = Counter()
    with bar(total, "search") as advance:
        for start in range(0, total, WINDOW):
            stop = min(start + WINDOW, total)
            queries = anchor_vectors[anchors[start:stop]]
            excluded = _of_anchors(pairs.excluded, start, stop)
            neighbours = nearest(
                queries, candidates(), rules.range_max, excluded=excluded
            )
            pairs_of_block = _of_anchors(pairs.positives, start, stop)
            least_similar = _least_similarity(queries, vectors, pairs_of_block)
            selection = rules.select(neighbours, least_similar, start)
            places[start:stop] = selection.places
            similarities[start:stop] = selection.similarities
            positives[start:stop] = selection.positives
            left_out += selection.left_out
            advance(stop - start)

    return Selection(places, similarities, positives, left_out)


def _of_anchors(
    pairs: NDArray[np.int64],
    start: int,
    stop: int,
) -> NDArray[np.int64]:
    """Return the pairs of the anchors from `start` to before `stop`; the result numbers these anchors from 0."""
    import numpy as np

    first, last = np.searchsorted(pairs[:, 0], (start, stop))
    renumbered: NDArray[np.int64] = pairs[first:last] - np.array([start, 0])
    return renumbered


def _least_similarity(
    anchors: NDArray[np.float32],
    vectors: NDArray[np.float32],
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the similarity of each anchor to its least similar positive, `(anchors,)`."""
    import numpy as np

    least = np.full(len(anchors), np.inf)
    for start in range(0, len(pairs), WINDOW):
        rows, texts = pairs[start : start + WINDOW].T
        # The sum is computed as in `nearest`, so that equal vectors have equal similarities.
        products = vectors[texts].astype(np.float64) * anchors[rows]
        np.minimum.at(least, rows, products.sum(axis=1))
    return least


def _columns(negatives: int) -> tuple[str, ...]:
    """Return the names of the output's columns, as in the data source `triplets`."""
    further = [f"negative_{number}" for number in range(2, negatives + 1)]
    return ("anchor", "positive", "negative", *further)


def _rows(
    request: MiningRequest,
    dataset: Dataset,
    store: Sequence[str],
    pairs: _Pairs,
    selection: Selection,
) -> tuple[list[str], dict[str, float]]:
    """Return the lines of the rows that have enough negatives, and two mean similarities over these rows.

    `positive` is the similarity of an anchor to its least similar positive, `negative` its similarity to its
    negatives.

    Raises:
        DataError: if no row has enough negatives, or `require_all` is set and any row has too few.
    """
    import numpy as np

    enough = (selection.places[:, 0] >= 0)[pairs.anchor_of_row]
    _require_enough(enough, request, dataset, pairs, selection)
    names = _columns(request.rules.negatives)
    is_tsv = request.output.suffix.lower() == ".tsv"
    numbers = pairs.texts[selection.places]
    rows = np.flatnonzero(enough)
    texts = dataset.rows(rows.tolist())
    lines = []
    for row, anchor, positive in zip(
        rows, texts["anchor"], texts["positive"], strict=True
    ):
        negatives = [store[number] for number in numbers[pairs.anchor_of_row[row]]]
        fields = (anchor, positive, *negatives)
        if is_tsv:
            lines.append("\t".join(fields))
        else:
            line = dict(zip(names, fields, strict=True))
            lines.append(json.dumps(line, ensure_ascii=False))

    anchors_with_negatives = pairs.anchor_of_row[enough]
    means = {
        "positive": float(selection.positives[anchors_with_negatives].mean()),
        "negative": float(selection.similarities[anchors_with_negatives].mean()),
    }
    return lines, means


def _require_enough(
    enough: NDArray[np.bool_],
    request: MiningRequest,
    dataset: Dataset,
    pairs: _Pairs,
    selection: Selection,
) -> None:
    """Raise `DataError` if no row has enough negatives, or `require_all` is set and any row has too few."""
    import numpy as np

    negatives = count(request.rules.negatives, "negative")
    if request.require_all and not enough.all():
        row = int(np.argmin(enough))
        anchor = dataset.rows([row])["anchor"][0]
        raise DataError(
            f"{np.count_nonzero(~enough)} of {len(dataset)} rows have fewer than {negatives} left, first row "
            f"{row + 1} ({anchor!r:.60}); {_advice(request, pairs, selection)}, or leave out `--require-all`"
        )
    if not enough.any():
        raise DataError(
            f"none of the {len(dataset)} rows has {negatives} left; {_advice(request, pairs, selection)}"
        )


def _advice(
    request: MiningRequest,
    pairs: _Pairs,
    selection: Selection,
) -> str:
    """Return how many candidates each rule has left out, and what to change."""
    counts = []
    for rule, number in selection.left_out.items():
        if number:
            counts.append(f"`{rule}` {number:,}")
    rules = ", ".join(counts) or "no rule"
    most = min(request.rules.range_max, pairs.candidates)
    seen = f"of the {most} nearest of {pairs.candidates:,} candidates, for {len(pairs.anchors):,} anchors"
    return f"{seen}, {rules} left out; loosen the rules, raise `range_max`, or add a `--corpus`"


def _record_of_encoder(
    encoder: Encoder,
    request: MiningRequest,
    plugins: Plugins,
) -> dict[str, Any]:
    """Return the part of the record that describes the encoder."""
    return {
        "path": str(Path(request.encoder).resolve()),
        "sha256": sha256(Path(request.encoder)),
        "fingerprint": fingerprint_of(encoder),
        "width": encoder.width,
        "runtime": unstructure(request.runtime),
        "plugins": component_releases(encoder.recipe, request.runtime, plugins),
        **encoder.protocol(),
        "prompts": {
            "anchor": request.anchor_prompt,
            "candidates": request.candidate_prompt,
            "instruction": request.instruction,
        },
    }


def _record_of_data(source: DataSource, dataset: Dataset) -> dict[str, Any]:
    """Return the part of the record that describes the data."""
    return {
        "source": unstructure(source),
        "fingerprint": dataset.fingerprint,
        "rows": len(dataset),
        "left_out": dict(dataset.left_out),
    }
