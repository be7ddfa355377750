"""Predictions of `next-token` in the run directory, and their tables in the run's report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import DataError, RunError
from sentbed.helpers import read_file, write_atomic
from sentbed.protocols import START, ReportSection, Score

from sentbed_evaluators import PREDICTIONS

if TYPE_CHECKING:
    from sentbed_evaluators.next_token import NextTokenEvaluation

WHITE_SPACE_NAMES = {"": "(nothing)", " ": "(space)", "\n": "(line end)"}
"""Names of white-space tokens in tables."""


def write_predictions(
    directory: Path,
    encoder: str,
    evaluation: NextTokenEvaluation,
) -> None:
    """Write an encoder's predictions to `next-token/ENCODER-TEXTS.json` of a run directory."""
    rows = list(map(attrs.astuple, evaluation.predictions))
    file = _file(directory, encoder, evaluation.scores[0])
    file.parent.mkdir(exist_ok=True)
    write_atomic(file, json.dumps(rows, ensure_ascii=False, indent=1))


def sections(directory: Path, scores: Sequence[Score]) -> tuple[ReportSection, ...]:
    """Return a table for each list of sentences, with sentences as rows and encoders as columns.

    Raises:
        RunError: if the predictions of a score cannot be read.
    """
    scores_by_list: dict[str, dict[str, Score]] = {}
    for score in scores:
        if score.evaluator == PREDICTIONS:
            list_hash = score.evaluator_protocol["data"]
            by_encoder = scores_by_list.setdefault(list_hash, {})
            by_encoder.setdefault(score.encoder, score)
    return tuple(_sections(directory, list(scores_by_list.values())))


def _sections(
    directory: Path, scores_by_list: Sequence[dict[str, Score]]
) -> Iterator[ReportSection]:
    """Yield a table for each list of sentences, from the scores of its encoders."""
    for number, scores in enumerate(scores_by_list, start=1):
        key = "next-token"
        if number > 1:
            key = f"next-token-{number}"
        columns = ["Sentence"]
        cells: list[Sequence[Any]] = []
        for encoder, score in scores.items():
            columns.append(_heading(encoder, score))
            predictions = _read(_file(directory, encoder, score))
            if not cells:
                cells.append([text for text, _ in predictions])
            cells.append([tokens for _, tokens in predictions])
        yield ReportSection(
            key=key,
            title="What the model would say next",
            columns=tuple(columns),
            rows=tuple(zip(*cells, strict=True)),
            note="The most likely tokens at the end or at the mask of the prompt, with their probabilities. "
            "All bars have the same scale.",
        )


def shown(token: str) -> str:
    """Return a token for tables: without surrounding white space, or a name such as `(space)` or `(bytes)`."""
    stripped = token.strip()
    if not stripped:
        return WHITE_SPACE_NAMES.get(token, "(white space)")
    # A token of bytes may be a part of a character; decoding turns it into U+FFFD.
    if not stripped.isprintable() or not stripped.strip("\ufffd"):
        return "(bytes)"
    return stripped


def _heading(encoder: str, score: Score) -> str:
    """Return two lines: the encoder's name, and its prompt with `…` for the sentence."""
    if encoder.endswith(START):
        encoder = f"{encoder.removesuffix(START)} before training"
    template = score.protocol["encoder"]["prompt"]["template"]
    return f"{encoder}:\n{template.replace('{text}', '…')}"


def _file(
    directory: Path,
    encoder: str,
    score: Score,
) -> Path:
    """Return the path of the file with an encoder's predictions for the sentences of a score."""
    data = score.evaluator_protocol["data"]
    return directory / PREDICTIONS / f"{encoder}-{data[:12]}.json"


def _read(file: Path) -> list[tuple[str, tuple[tuple[str, float], ...]]]:
    """Return pairs of a sentence and its most likely tokens, each token as in tables and with its probability."""
    predictions = []
    try:
        for text, row in json.loads(read_file(file)):
            tokens = []
            for token, probability in row:
                tokens.append((shown(str(token)), float(probability)))
            predictions.append((str(text), tuple(tokens)))
    except (OSError, ValueError, TypeError, DataError) as error:
        raise RunError(
            f"the predictions in `{file}` cannot be read ({error}); evaluate again, or leave the table out"
        ) from error
    return predictions
