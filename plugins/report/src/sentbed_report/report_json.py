"""`report.json` with the additions of this distribution: intervals, differences, a ranking."""

from __future__ import annotations

from typing import Any

import attrs
from sentbed.tools import record_json, score_record

from sentbed_report.run_report import Bootstrapped, Ranking, RunReport


def to_json(data: RunReport) -> str:
    """Return `report.json`."""
    more: dict[str, Any] = {}
    if data.bootstrap is not None:
        more["scores"] = [
            {**score_record(score), "interval": interval}
            for score, interval in zip(data.scores, data.bootstrap.intervals, strict=True)
        ]
        more["bootstrap"] = _bootstrap(data.bootstrap)
    if data.ranking is not None:
        more["ranking"] = _ranking(data.ranking)
    return record_json(data, more)


def _bootstrap(found: Bootstrapped) -> dict[str, Any]:
    return {
        "resamples": found.resamples,
        "confidence": found.confidence,
        "differences": [
            {
                **{
                    key: value
                    for key, value in score_record(one.score).items()
                    if key not in ("encoder", "value")
                },
                "first": one.first,
                "second": one.second,
                **attrs.asdict(one.comparison),
            }
            for one in found.differences
        ],
    }


def _ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "evaluator": ranking.evaluator,
        "rows": [
            {
                "rank": rank,
                "sentence": candidate.sentence,
                "word": candidate.word,
                "score": candidate.score,
                "difference": difference,
                "template": candidate.template,
            }
            for rank, candidate, difference in ranking.rows
        ],
    }
