"""Mining of hard negatives: for each anchor, similar candidates that are not its positives.

Texts and vectors are kept on disk, in a temporary directory beside the output. Memory holds a window of texts
and vectors, a block of anchors with their nearest candidates, and a few numbers per row.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder, __version__
from sentbed.errors import DataError, RunError, listed
from sentbed.helpers import cannot_write, returned, sha256
from sentbed.protocols import Dataset, DataSource, Runtime
from sentbed.tools import (
    EncoderRecipe,
    Plugins,
    load_plugins,
    locked,
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
from sentbed_corpus.text_store import TextStore
from sentbed_corpus.vector_reader import Vectors
from sentbed_corpus.vector_writer import require_finite, write_npy_header

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

    with (
        _workplace(request.output) as place,
        closing(TextStore.create(place / "texts")) as store,
    ):
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
        vectors, anchor_vectors, anchors = _encode_pairs(
            encoder, request, store, pairs, place, bar
        )
        selection = _search(vectors, anchor_vectors, anchors, pairs, request.rules, bar)
        rows = place / "rows"
        written, similarity = _write_rows(
            rows, request, dataset, store, pairs, selection
        )

        columns = _columns(request.rules.negatives)
        record = {
            "schema": SCHEMA,
            "version": __version__,
            "output": {
                "file": request.output.name,
                "sha256": sha256(rows),
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
        _publish(place / "record", record, path, rows, request.output)

    return Mined(written, len(dataset) - written, columns, path)


def _remark_on_similarity(recipe: EncoderRecipe) -> str | None:
    """Return a remark if the encoder's similarity is not the cosine; otherwise None.

    Negatives are always mined by the cosine.
    """
    similarity = recipe.similarity
    if similarity is None or similarity.traits.formula == "cosine":
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
    dataset = returned(source.open(), Dataset, source, "open")
    if dataset.varies:
        raise DataError(
            f"the texts of `{source.name}` change from epoch to epoch, and negatives are mined once; take a "
            "source whose texts stay"
        )
    if not len(dataset):
        raise DataError(f"`{source.name}` has no rows; name data with pairs of texts")
    return dataset


@contextmanager
def _workplace(output: Path) -> Iterator[Path]:
    """Yield an empty directory beside the output, and remove it at the end.

    If a killed command has left files in it, they are removed first.
    """
    # Not beside what a link leads to: that may be on another disk, onto which no file can be renamed.
    place = output.parent.resolve() / f".{output.name}.mining"
    with locked(place / "lock") as free:
        if not free:
            raise RunError(
                f"another `sentbed mine` is writing `{output}`; wait for it, or choose another place"
            )
        for file in place.iterdir():
            if file.name != "lock":
                file.unlink()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


@attrs.frozen
class _Corpus:
    """Files with further candidates."""

    sources: tuple[Source, ...] = ()
    blank: int = 0
    """Number of rows whose text is blank, so that they are not candidates."""

    @classmethod
    def read(cls, request: MiningRequest, store: TextStore) -> _Corpus:
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
            store.add(kept)
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
    store: TextStore,
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
            store.add(texts)


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
        store: TextStore,
        corpus: int,
        corpus_only: bool,
    ) -> _Pairs:
        """Return the pairs of a store.

        The store has `corpus` texts of the corpus, then the positive of each row, then the anchor of each row.
        """
        import numpy as np

        texts, indices = store.distinct()
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
    store: TextStore,
    pairs: _Pairs,
    place: Path,
    bar: Bar,
) -> tuple[Vectors, Vectors, NDArray[np.int64]]:
    """Return the vectors of all texts, the array with the vectors of the anchors, and each anchor's row in it.

    If anchors and candidates have the same prompt, the second array is the first. Otherwise, the second array has
    only the vectors of the anchors, encoded under their own prompt.
    """
    import numpy as np

    for_candidates = under_prompt(
        encoder, request.candidate_prompt, request.instruction
    )
    for_anchors = under_prompt(encoder, request.anchor_prompt, request.instruction)
    path = place / "vectors.npy"
    vectors = _encode(for_candidates, store, pairs.texts, path, bar)
    if request.anchor_prompt == request.candidate_prompt:
        return vectors, vectors, pairs.anchors
    numbers = pairs.texts[pairs.anchors]
    queries = _encode(for_anchors, store, numbers, place / "anchors.npy", bar)
    return vectors, queries, np.arange(len(numbers))


def _encode(
    encoder: Encoder,
    store: TextStore,
    numbers: NDArray[np.int64],
    path: Path,
    bar: Bar,
) -> Vectors:
    """Encode the texts with these numbers, and write their vectors, divided by their norms, to `path`.

    The result reads the vectors from this file.
    """
    import numpy as np

    try:
        with path.open("wb") as file, bar(len(numbers), "encode") as advance:
            write_npy_header(file, len(numbers), encoder.width, "float32")
            for start in range(0, len(numbers), WINDOW):
                texts = store.read(numbers[start : start + WINDOW].tolist())
                vectors = encoder.encode(texts, advance)
                require_finite(vectors)
                is_nonzero = vectors.any(axis=1)
                if not is_nonzero.all():
                    text = texts[int(np.argmin(is_nonzero))]
                    raise RunError(
                        f"the vector of {text!r:.60} is zero, so it has no cosine with other vectors; "
                        "check the pooler and the weights"
                    )
                file.write(unit_rows(vectors).tobytes())
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error

    return Vectors(
        (path,), np.array([len(numbers)]), encoder.width, np.dtype("float32")
    )


def _search(
    vectors: Vectors,
    anchor_vectors: Vectors,
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
            yield vectors.rows(start, min(start + WINDOW, pairs.candidates))

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
    vectors: Vectors,
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


def _write_rows(
    path: Path,
    request: MiningRequest,
    dataset: Dataset,
    store: TextStore,
    pairs: _Pairs,
    selection: Selection,
) -> tuple[int, dict[str, float]]:
    """Write the rows that have enough negatives; return the number of rows, and two mean similarities.

    The means are over the written rows: `positive` is the similarity of an anchor to its least similar positive,
    `negative` its similarity to its negatives.

    Raises:
        DataError: if no row has enough negatives, or `require_all` is set and any row has too few.
    """
    import numpy as np

    enough = (selection.places[:, 0] >= 0)[pairs.anchor_of_row]
    _require_enough(enough, request, dataset, pairs, selection)
    names = _columns(request.rules.negatives)
    is_tsv = request.output.suffix.lower() == ".tsv"
    numbers = pairs.texts[selection.places]
    try:
        with path.open("wb") as file:
            if is_tsv:
                file.write(("\t".join(names) + "\n").encode())
            for start in range(0, len(dataset), WINDOW):
                rows = np.flatnonzero(enough[start : start + WINDOW]) + start
                texts = dataset.rows(rows.tolist())
                anchors = pairs.anchor_of_row[rows]
                negatives = map(store.read, numbers[anchors].T.tolist())
                for fields in zip(
                    texts["anchor"], texts["positive"], *negatives, strict=True
                ):
                    if is_tsv:
                        line = "\t".join(fields)
                    else:
                        row = dict(zip(names, fields, strict=True))
                        line = json.dumps(row, ensure_ascii=False)
                    file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(cannot_write(request.output, error)) from error

    anchors_with_negatives = pairs.anchor_of_row[enough]
    means = {
        "positive": float(selection.positives[anchors_with_negatives].mean()),
        "negative": float(selection.similarities[anchors_with_negatives].mean()),
    }
    return int(np.count_nonzero(enough)), means


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
    fingerprint = None
    space = fingerprint_of(encoder)
    if space is not None:
        fingerprint = space.name
    return {
        "path": str(Path(request.encoder).resolve()),
        "sha256": sha256(Path(request.encoder)),
        "fingerprint": fingerprint,
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


def _publish(
    temporary: Path,
    record: Mapping[str, Any],
    path: Path,
    rows: Path,
    output: Path,
) -> None:
    """Write the record and give both files their names: the record first, so that no rows are without one."""
    text = json.dumps(
        record,
        indent=2,
        ensure_ascii=False,
        default=str,
    )
    try:
        temporary.write_text(f"{text}\n", "utf-8")
        temporary.replace(path)
        rows.replace(output)
    except OSError as error:
        raise RunError(cannot_write(output, error)) from error
