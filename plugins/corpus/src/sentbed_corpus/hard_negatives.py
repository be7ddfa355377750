"""Mining of hard negatives: for each anchor, similar candidates that are not its positives.

Texts and vectors are in memory, which serves up to some million texts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import Encoder, __version__
from sentbed.errors import DataError, RunError, listed
from sentbed.helpers import sha256, write_atomic
from sentbed.protocols import Dataset, DataSource, Runtime
from sentbed.tools import (
    Plugins,
    load_plugins,
    naming_components,
    saved_recipe,
    unstructure,
)
from sentbed_common import in_blocks, nearest, unit_rows

from sentbed_corpus.component_releases import component_releases
from sentbed_corpus.input_texts import find_inputs, input_texts
from sentbed_corpus.negative_rules import Rules, Selection
from sentbed_corpus.progress import Bar, no_bar
from sentbed_corpus.task_prompt import require_prompt, under_prompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ANCHOR_BLOCK = 16_384
"""Number of anchors whose nearest candidates are held at a time."""
RECORD = ".json"
"""Suffix of the record of how the negatives were mined, appended to the name of the output."""


@attrs.frozen(kw_only=True)
class MiningRequest:
    """Everything that determines what is mined."""

    encoder: str
    """Directory of a saved encoder."""
    data: DataSource
    """Data source with the columns `anchor` and `positive`."""
    output: Path
    """Path of a `.jsonl` file."""
    runtime: Runtime
    rules: Rules = attrs.field(factory=Rules)
    corpus: tuple[str, ...] = ()
    """Files, directories and patterns with further candidates, as for `encode_corpus`."""
    column: str = "text"
    """Column with the text in tables of the corpus."""
    corpus_only: bool = False
    """Whether only texts of the corpus are candidates; otherwise positives of other rows are, too."""
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
    bar: Bar = no_bar,
) -> Mined:
    """Write each row of the data with its hard negatives to `request.output`, and a record beside it.

    The candidates are the distinct texts of the positives and of the corpus; with `corpus_only`, those of the
    corpus alone. Equal anchors share their positives and get the same negatives. Neither a positive of the anchor
    nor the anchor's own text is a negative of the anchor. Both files get their names when they are complete.

    Raises:
        RunError: if the output exists or cannot be written, the rules contradict each other, or a vector is
            zero or not finite.
        DataError: if the data or the corpus cannot be used, or no row has enough negatives.
        ModelError: if the encoder cannot be loaded.
    """
    plugins = load_plugins()
    _require_possible(request)
    recipe = saved_recipe(Path(request.encoder), plugins, request.trust_remote_code)
    for key in (request.anchor_prompt, request.candidate_prompt):
        require_prompt(recipe, key)
    dataset = _open(request.data)
    rows = dataset.rows(range(len(dataset)))
    corpus = _corpus_texts(request)
    pairs = Pairs.of(rows["anchor"], rows["positive"], corpus, request.corpus_only)

    encoder = Encoder.load(
        request.encoder,
        request.runtime,
        plugins,
        trust_remote_code=request.trust_remote_code,
    )
    with naming_components(encoder.recipe):
        anchor_vectors, vectors = _encode_pairs(encoder, request, pairs, bar)
    selection = _search(anchor_vectors, vectors, pairs, request.rules, bar)

    columns = _columns(request.rules.negatives)
    lines = []
    for row in _rows_with_negatives(rows["anchor"], rows["positive"], pairs, selection):
        line = dict(zip(columns, row, strict=True))
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    if not lines:
        raise DataError(
            f"none of the {len(dataset)} rows has {request.rules.negatives} negative(s) left; loosen the rules, "
            "raise `range_max`, or add a `--corpus`"
        )

    left_out = len(dataset) - len(lines)
    record = {
        "version": __version__,
        "rows": len(lines),
        "columns": columns,
        "encoder": _record_of_encoder(encoder, request, plugins),
        "data": {
            "source": unstructure(request.data),
            "fingerprint": dataset.fingerprint,
            "rows": len(dataset),
        },
        "corpus": {"inputs": request.corpus, "texts": len(corpus)},
        "rules": attrs.asdict(request.rules),
        "anchors": len(pairs.anchors),
        "candidates": pairs.candidates,
        "left_out": {"rows": left_out, "candidates": dict(selection.left_out)},
    }
    path = request.output.with_name(request.output.name + RECORD)
    text = json.dumps(record, indent=2, ensure_ascii=False, default=str)
    # The record comes first, so that no rows are without one.
    write_atomic(path, f"{text}\n")
    write_atomic(request.output, "".join(lines))
    return Mined(len(lines), left_out, columns, path)


def _record_of_encoder(
    encoder: Encoder,
    request: MiningRequest,
    plugins: Plugins,
) -> dict[str, Any]:
    """Return the part of the record that describes the encoder."""
    return {
        "path": str(Path(request.encoder).absolute()),
        "sha256": sha256(Path(request.encoder)),
        "runtime": unstructure(request.runtime),
        "plugins": component_releases(encoder.recipe, request.runtime, plugins),
        "width": encoder.width,
        **encoder.protocol(),
        "prompts": {
            "anchor": request.anchor_prompt,
            "candidates": request.candidate_prompt,
            "instruction": request.instruction,
        },
    }


def _require_possible(request: MiningRequest) -> None:
    """Raise `RunError` if the output cannot be written, or the rules contradict each other."""
    output = request.output
    if output.suffix.lower() != ".jsonl":
        raise RunError(
            f"`{output}` ends in {output.suffix!r}, expected a `.jsonl` file"
        )
    if output.exists() and not (request.overwrite and output.is_file()):
        raise RunError(
            f"`{output}` exists; choose another place, or replace a file with `--overwrite`"
        )
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


def _corpus_texts(request: MiningRequest) -> list[str]:
    """Return the texts of the corpus that are not blank.

    Raises:
        DataError: if a text cannot be used, or only the corpus has candidates and all its texts are blank.
    """
    texts = []
    if request.corpus:
        for location in find_inputs(request.corpus):
            for text in input_texts(location, request.column):
                if text.strip():
                    texts.append(text)
    if request.corpus_only and not texts:
        raise DataError(
            "there are no candidates: every text of the corpus is blank; name another corpus"
        )
    return texts


@attrs.frozen(eq=False)
class Pairs:
    """The distinct texts of data and corpus, and which of them are candidates, anchors and positives."""

    texts: list[str]
    """The candidates, then positives that are no candidates, then anchors that are neither."""
    candidates: int
    """Number of candidates; they are the first of `texts`."""
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
        anchors: Sequence[str],
        positives: Sequence[str],
        corpus: Sequence[str],
        corpus_only: bool,
    ) -> Pairs:
        """Return the pairs of rows with these anchors and positives, and a corpus."""
        import numpy as np

        numbers: dict[str, int] = {}
        candidates = 0
        for texts in (corpus, positives, anchors):
            for text in texts:
                numbers.setdefault(text, len(numbers))
            if texts is corpus or (texts is positives and not corpus_only):
                candidates = len(numbers)

        numbers_of_anchors = [numbers[text] for text in anchors]
        numbers_of_positives = [numbers[text] for text in positives]
        distinct, anchor_of_row = np.unique(numbers_of_anchors, return_inverse=True)
        pairs = np.stack([anchor_of_row, numbers_of_positives], axis=1)
        itself = np.stack([np.arange(len(distinct)), distinct], axis=1)
        excluded = np.unique(np.concatenate([pairs, itself]), axis=0)
        return cls(
            list(numbers),
            candidates,
            distinct,
            anchor_of_row,
            np.unique(pairs, axis=0),
            excluded[excluded[:, 1] < candidates],
        )


def _encode_pairs(
    encoder: Encoder,
    request: MiningRequest,
    pairs: Pairs,
    bar: Bar,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the vectors of the anchors, and those of all texts, of length 1.

    Anchors are encoded by themselves if they have another prompt than candidates.
    """
    for_candidates = under_prompt(
        encoder, request.candidate_prompt, request.instruction
    )
    vectors = _encode(for_candidates, pairs.texts, bar)
    if request.anchor_prompt == request.candidate_prompt:
        return vectors[pairs.anchors], vectors

    for_anchors = under_prompt(encoder, request.anchor_prompt, request.instruction)
    anchors = [pairs.texts[number] for number in pairs.anchors]
    return _encode(for_anchors, anchors, bar), vectors


def _encode(encoder: Encoder, texts: Sequence[str], bar: Bar) -> NDArray[np.float32]:
    """Return the vectors of texts, of length 1. Raises `RunError` if a vector is zero or not finite."""
    import numpy as np

    with bar(len(texts), "encode") as advance:
        vectors = encoder.encode(texts, progress=advance)
    has_direction = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
    if not has_direction.all():
        text = texts[int(np.argmin(has_direction))]
        raise RunError(
            f"the vector of {text!r:.60} is zero or not finite, so it has no cosine with others; check the "
            "pooler, the weights and the precision"
        )
    return unit_rows(vectors)


def _search(
    anchor_vectors: NDArray[np.float32],
    vectors: NDArray[np.float32],
    pairs: Pairs,
    rules: Rules,
    bar: Bar,
) -> Selection:
    """Return the negatives of all anchors."""
    import numpy as np

    places = []
    left_out: Counter[str] = Counter()
    candidates = vectors[: pairs.candidates]
    total = len(anchor_vectors)
    with bar(total, "search") as advance:
        for start in range(0, total, ANCHOR_BLOCK):
            queries = anchor_vectors[start : start + ANCHOR_BLOCK]
            stop = start + len(queries)
            excluded = _of_anchors(pairs.excluded, start, stop)
            neighbours = nearest(
                queries, in_blocks(candidates), rules.range_max, excluded=excluded
            )
            positives = _of_anchors(pairs.positives, start, stop)
            least = _least_similarity(queries, vectors, positives)
            selection = rules.select(neighbours, least, start)
            places.append(selection.places)
            left_out += selection.left_out
            advance(len(queries))
    return Selection(np.concatenate(places), left_out)


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

    rows, texts = pairs.T
    # The sum is computed as in `nearest`, so that equal vectors have equal similarities.
    products = (vectors[texts].astype(np.float64) * anchors[rows]).sum(axis=1)
    least = np.full(len(anchors), np.inf)
    np.minimum.at(least, rows, products)
    return least


def _columns(negatives: int) -> tuple[str, ...]:
    """Return the names of the output's columns, as in the data source `triplets`."""
    further = [f"negative_{number}" for number in range(2, negatives + 1)]
    return ("anchor", "positive", "negative", *further)


def _rows_with_negatives(
    anchors: Sequence[str],
    positives: Sequence[str],
    pairs: Pairs,
    selection: Selection,
) -> Iterator[tuple[str, ...]]:
    """Yield anchor, positive and negatives of each row that has enough negatives."""
    for anchor, positive, number in zip(
        anchors, positives, pairs.anchor_of_row, strict=True
    ):
        places = selection.places[number]
        if places[0] >= 0:
            negatives = [pairs.texts[place] for place in places]
            yield (anchor, positive, *negatives)
