"""Mined negatives: equal to those that sentence-transformers mines from the same vectors, and trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import sentbed
import toy_plugin
from click.testing import CliRunner
from numpy.typing import NDArray
from sentbed import Encoder, FilePath, build_encoder
from sentbed._cli.main import main
from sentbed_corpus import MiningRequest, Rules, hard_negatives, mine_hard_negatives

WIDTH = 12
RULES = [
    {},
    {"negatives": 3, "range_min": 7},
    {"negatives": 2, "range_max": 5},
    {"negatives": 2, "absolute_margin": 0.15},
    {"negatives": 2, "relative_margin": 0.3},
    {"negatives": 2, "max_score": 0.4},
    {"negatives": 4, "min_score": 0.6},
    {
        "negatives": 2,
        "absolute_margin": 0.1,
        "relative_margin": 0.2,
        "max_score": 0.5,
        "min_score": 0.1,
    },
]


class Model:
    """Vectors of texts, as sentence-transformers asks a model for them."""

    device = "cpu"

    def __init__(self, vectors):
        self.vectors = vectors

    def encode_query(self, texts, **_):
        return np.stack([self.vectors[text] for text in texts])

    encode_document = encode_query

    def similarity(self, queries, documents):
        from sentence_transformers.util import cos_sim

        return cos_sim(queries, documents)

    def similarity_pairwise(self, queries, documents):
        from sentence_transformers.util import pairwise_cos_sim

        return pairwise_cos_sim(queries, documents)


class Given(Encoder):
    """An encoder whose vectors are given."""

    width = WIDTH
    vectors: Mapping[str, NDArray[np.float32]]

    def encode(self, texts, *_, **__):
        return np.stack([self.vectors[text] for text in texts])


@pytest.fixture(scope="module")
def pairs():
    """160 pairs of which some share an anchor or a positive."""
    rows = [(f"anchor {i}", f"positive {i}") for i in range(150)]
    return [
        *rows,
        *((f"anchor {i}", f"positive {i + 40}") for i in range(5)),
        *rows[:5],
    ]


@pytest.fixture(scope="module")
def vectors(pairs):
    """Random vectors; that of a positive is near that of its first anchor."""
    generator = np.random.default_rng(0)
    vectors = {}
    for anchor, positive in pairs:
        vectors.setdefault(anchor, generator.normal(size=WIDTH).astype(np.float32))
        vectors.setdefault(
            positive, vectors[anchor] + generator.normal(size=WIDTH).astype(np.float32)
        )
    for number in range(300):
        vectors[f"more {number}"] = generator.normal(size=WIDTH).astype(np.float32)
    return vectors


@pytest.fixture
def ours(
    installed_toy,
    recipe_of,
    vectors,
    tmp_path,
    monkeypatch,
):
    """Mine pairs in files, and return pair -> negatives."""
    toy = build_encoder(recipe_of())
    toy.save(tmp_path / "encoder")
    encoder = Given(toy.recipe, toy.engine, toy.backbone, toy.placed)
    encoder.vectors = vectors
    monkeypatch.setattr(hard_negatives.Encoder, "load", lambda *_, **__: encoder)

    def mine(pairs, corpus, rules):
        lines = ["anchor\tpositive", *map("\t".join, pairs)]
        (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        (tmp_path / "corpus.txt").write_text("\n".join(corpus) + "\n", "utf-8")
        request = MiningRequest(
            encoder=str(tmp_path / "encoder"),
            data=toy_plugin.Table(path=FilePath(str(tmp_path / "pairs.tsv"))),
            output=tmp_path / "mined.jsonl",
            runtime=toy_plugin.Toy(),
            rules=rules,
            corpus=(str(tmp_path / "corpus.txt"),) if corpus else (),
            overwrite=True,
        )
        mine_hard_negatives(request)
        lines = (tmp_path / "mined.jsonl").read_text("utf-8").splitlines()
        negatives = {}
        for line in lines:
            anchor, positive, *more = json.loads(line).values()
            negatives[anchor, positive] = more
        return negatives

    return mine


def theirs(
    pairs,
    corpus,
    rules,
    vectors,
):
    """Return pair -> negatives that sentence-transformers mines."""
    datasets = pytest.importorskip("datasets")
    util = pytest.importorskip("sentence_transformers.util")
    rules = {"range_max": 10_000, **rules}
    anchors, positives = zip(*pairs, strict=True)
    mined = util.mine_hard_negatives(
        datasets.Dataset.from_dict({"anchor": anchors, "positive": positives}),
        Model(vectors),
        corpus=list(corpus) or None,
        num_negatives=rules.pop("negatives", 1),
        output_format="n-tuple",
        verbose=False,
        **rules,
    )
    negatives = {}
    for row in mined:
        anchor, positive, *more = row.values()
        negatives[anchor, positive] = more
    return negatives


@pytest.mark.sweep(4)
@pytest.mark.parametrize("with_corpus", [False, True])
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(rules) or "none")
def test_negatives_are_those_of_sentence_transformers(
    rules,
    with_corpus,
    pairs,
    vectors,
    ours,
):
    """Ranks are not compared together with another rule: there they are counted after the rule."""
    corpus = (
        [text for text in vectors if text.startswith("more")] if with_corpus else []
    )
    expected = theirs(pairs, corpus, rules, vectors)
    wide = {} if "range_max" in rules else {"range_max": 10_000}
    mined = ours(pairs, corpus, Rules(**{**wide, **rules}))
    assert mined == expected
    assert len(mined) > 20
    if set(rules) & {"absolute_margin", "relative_margin", "max_score", "min_score"}:
        plain = ours(pairs, corpus, Rules(negatives=rules["negatives"]))
        assert any(
            plain[pair] != negatives for pair, negatives in mined.items()
        ) or len(mined) < len(plain)


@pytest.mark.slow
def test_a_stage_trains_on_what_was_mined(tmp_path, monkeypatch):
    """The line that the command prints is put into a recipe."""
    monkeypatch.chdir(tmp_path)
    recipe = Path(__file__).parent.parent / "recipes" / "scratch.toml"
    settings = ["stage.triplets.epochs=", "stage.triplets.steps=2", "evaluate=[]"]
    first = sentbed.run(sentbed.load_recipe(recipe, settings), tmp_path / "first")
    assert first.directory == tmp_path / "first"
    result = CliRunner().invoke(
        main,
        [
            *("mine", "first/encoder", "--data", "sample", "--output", "mined.jsonl"),
            *("--negatives", "3", "--range-max", "50", "--sampling", "random"),
        ],
    )
    assert result.exit_code == 0, result.output
    line = next(
        line for line in result.output.splitlines() if line.startswith("data = ")
    )
    again = sentbed.load_recipe(
        recipe,
        [
            *settings,
            f"stage.triplets.data={line.removeprefix('data = ')}".replace(
                "mined", f"{tmp_path}/mined"
            ),
        ],
    )
    assert again.stage[0].data.columns == (
        "anchor",
        "positive",
        "negative",
        "negative_2",
        "negative_3",
    )
    sentbed.run(again, tmp_path / "second")
    assert (tmp_path / "second" / "encoder" / "encoder.toml").is_file()
