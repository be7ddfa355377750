"""Journal of a demonstration search: the scores of each candidate, written as soon as they are computed.

The file `search.jsonl` begins with a line of hashes of everything that determines scores. Each other line has
the scores with one prompt of the encoder.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import DataError, RunError, reason_of
from sentbed.helpers import cannot_write, read_file
from sentbed.protocols import Evaluation, Score
from sentbed.tools import plain, score_record
from sentbed_report.report_json import read_score

JOURNAL = "search.jsonl"
SCHEMA = 1
LARGEST = 1 << 28
"""Maximum size of a journal in bytes."""
_BEGINNING = b'{"schema": '
"""First bytes of every journal. A file without a complete line is a journal only if it begins with these."""


@attrs.frozen
class JournalEntry:
    """Entry of the journal: the scores with one prompt."""

    score: float
    """Primary score of the evaluation, by which candidates are ranked."""
    scores: tuple[Score, ...]
    seconds: float

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> JournalEntry:
        """Return the entry of a parsed line. Raises `LookupError` or `TypeError` if the line is no entry."""
        scores = line["scores"]
        if not isinstance(scores, list):
            raise TypeError(f"found {scores!r:.40}, expected scores")
        return cls(
            _number(line["score"]),
            tuple(map(read_score, scores)),
            _number(line["seconds"]),
        )

    @property
    def data(self) -> list[Any]:
        """For each score: its task, its metric and the digest of its data."""
        data = []
        for score in self.scores:
            digest = score.evaluator_protocol.get("data")
            data.append((score.task, score.metric, digest))
        return data


def _number(value: Any) -> float:
    """Return a number of a journal. Raises `TypeError` if `value` is none."""
    if value is None:
        # NaN is written as null, since JSON has no NaN.
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"found {value!r:.40}, expected a number")
    return float(value)


@attrs.frozen(eq=False)
class Journal:
    """Journal of the prompts that a search has scored."""

    path: Path
    started: str
    """Time at which the search was started for the first time, in ISO 8601."""
    lines: dict[str, JournalEntry]
    """Text of the encoder's templates with the demonstrations of a candidate -> entry of this prompt."""

    @classmethod
    def open(cls, path: Path, decides: Mapping[str, str]) -> Journal:
        """Read the journal at `path`, or create it if there is none.

        `decides` has a hash of each part that determines scores, such as the weights.

        Raises:
            RunError: if the file is no journal, or if a part has another hash than in the journal.
        """
        advice = "choose another `--out`, or remove it"
        unreadable = f"`{path}` cannot be read as the journal of a search; {advice}"
        try:
            content = read_file(path, LARGEST) if path.exists() else b""
        except (OSError, DataError) as error:
            raise RunError(
                f"`{path}` cannot be read: {reason_of(error)}; {advice}"
            ) from error

        complete_lines = content[: content.rfind(b"\n") + 1]
        if not complete_lines:
            if not content.startswith(_BEGINNING[: len(content)]):
                raise RunError(unreadable)
            if content:
                os.truncate(path, 0)
            started = datetime.now(UTC).isoformat(timespec="seconds")
            _append(path, {"schema": SCHEMA, "started": started, "decides": decides})
            return cls(path, started, {})

        try:
            header, *lines = map(json.loads, complete_lines.splitlines())
            differing = []
            for part, digest in decides.items():
                if header["decides"][part] != digest:
                    differing.append(f"another {part}")
            entries = {str(line["prompt"]): JournalEntry.read(line) for line in lines}
            journal = cls(path, str(header["started"]), entries)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise RunError(unreadable) from error

        if differing:
            raise RunError(
                f"`{path}` is of a search with {' and '.join(differing)}, whose scores cannot stand beside "
                f"those of this one; {advice}"
            )

        if complete_lines != content:
            # The process was killed while it wrote the last line: its prompt is scored again.
            os.truncate(path, len(complete_lines))
        return journal

    def add(
        self,
        index: int,
        prompt: str,
        evaluation: Evaluation,
        seconds: float,
    ) -> None:
        """Append the scores with a prompt. They are on disk when the method returns.

        Args:
            index: Number of the candidate in the file, from 1; 0 for the prompt without a demonstration.
            prompt: Text of the encoder's templates.
            evaluation: Scores with this prompt.
            seconds: Seconds that the evaluation took.

        Raises:
            RunError: if the scores were computed on other data than the earlier ones, or if the disk is full.
        """
        line = plain(
            {
                "index": index,
                "prompt": prompt,
                "score": evaluation.primary,
                "scores": list(map(score_record, evaluation.scores)),
                "seconds": round(seconds, 3),
            }
        )
        entry = JournalEntry.read(line)
        if self.lines and next(iter(self.lines.values())).data != entry.data:
            raise RunError(
                f"the evaluator's data is no longer that of the scores in `{self.path}`; "
                "choose another `--out`, or put the data back"
            )

        _append(self.path, line)
        self.lines[prompt] = entry


def _append(path: Path, line: Mapping[str, Any]) -> None:
    """Write a line at the end of a file. It is on disk when the function returns."""
    try:
        with path.open("ab") as stream:
            stream.write(json.dumps(line).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
