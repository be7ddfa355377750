from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from sentbed import Encoder, ModelError, RunError
from sentbed._cli.main import main
from sentbed._document.structuring import structure
from sentbed._document.toml import Document
from sentbed._recipe.recipe import EncoderRecipe
from sentbed._registry.registry import load_plugins
from sentbed_testing import SENTENCES
from sentbed_workbench.evaluate import request_of
from sentbed_workbench.model_soup import PARENTS_FILE, _Scorer, make_soup

pytestmark = pytest.mark.slow

TINY: Mapping[str, Any] = {
    "backbone": {"use": "bert", "init": "random", "size": "tiny", "vocab_size": 400},
    "pooler": {"use": "mean"},
    "head": {"projection": 6, "normalize": True},
    "max_length": 16,
}
WHITENING = {
    "use": "whitening",
    "dimensions": 2,
    "data": {"use": "sample", "limit": 30},
}


def build(seed, **table):
    plugins = load_plugins()
    recipe, problems = structure(
        {**TINY, **table}, EncoderRecipe, Document({}), plugins, Path.cwd()
    )
    assert not problems, problems
    engine = plugins.find("runtime", "cpu").cls().build()
    engine.seed(seed)
    return Encoder.build(recipe, engine, lambda: SENTENCES)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three encoders with other weights; the last one is in a run directory."""
    directory = tmp_path_factory.mktemp("three")
    places = [directory / "a", directory / "b", directory / "run" / "encoder"]
    for seed, place in enumerate(places):
        build(seed).save(place)
    return [*places[:2], directory / "run"]


def weights(place):
    place = place if (place / "encoder.toml").is_file() else place / "encoder"
    return {
        f"{file.name} {name}": value
        for file in sorted(place.rglob("*.safetensors"))
        for name, value in load_file(file).items()
    }


@pytest.fixture
def dev(tmp_path):
    """Overrides of the evaluator `sts`: pairs of sentences with scores."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(SENTENCES, 2, replace=False) for _ in range(40)]
    lines = [f"{first}\t{second}\t{rng.uniform(0, 5):.2f}" for first, second in pairs]
    file = tmp_path / "dev.tsv"
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    return [f"path={file}", "split=dev"]


def test_a_uniform_average_is_the_mean_of_all_weights(three, tmp_path):
    soup = make_soup(tmp_path / "soup", three)
    assert soup.method == "uniform"
    means, parents = weights(tmp_path / "soup"), [weights(place) for place in three]
    assert means.keys() == parents[0].keys()
    for name, value in means.items():
        expected = sum(parent[name].double() for parent in parents) / 3
        torch.testing.assert_close(value.double(), expected, rtol=0, atol=1e-7)
    name = "modules.safetensors projection.weight"
    assert not torch.equal(parents[0][name], means[name])


def test_it_records_its_parents_and_loads(three, tmp_path):
    make_soup(tmp_path / "soup", three[:2])
    record = json.loads((tmp_path / "soup" / PARENTS_FILE).read_text())
    assert [parent["path"] for parent in record["parents"]] == [
        str(place) for place in three[:2]
    ]
    assert len({parent["weights"] for parent in record["parents"]}) == 2
    vectors = Encoder.load(tmp_path / "soup").encode(SENTENCES)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    with (tmp_path / "soup" / PARENTS_FILE).open("a") as stream:
        stream.write(" ")
    with pytest.raises(ModelError, match=r"parents\.json"):
        Encoder.load(tmp_path / "soup")


def test_a_greedy_average_keeps_what_a_loop_by_hand_keeps(three, dev, tmp_path):
    messages = []
    soup = make_soup(tmp_path / "soup", three, "sts", dev, say=messages.append)
    scored = Encoder.load(tmp_path / "soup")

    def score_of(values):
        scored.placed.module.load_state_dict(values)
        scored.placed.weights_changed()
        return scored.evaluate(request_of("sts", dev).evaluate, "soup").primary

    states = [dict(load(place).placed.module.state_dict()) for place in three]
    alone = [score_of(state) for state in states]
    kept = []
    best = -np.inf
    for number in sorted(range(3), key=lambda n: -alone[n]):
        tried = [*kept, number]
        mean = {
            name: sum(states[n][name].double() for n in tried) / len(tried)
            for name in states[0]
        }
        if (score := score_of(mean)) >= best:
            kept, best = tried, score
    assert [parent.kept for parent in soup.parents] == [
        number in kept for number in range(3)
    ]
    assert [parent.score for parent in soup.parents] == pytest.approx(alone)
    assert soup.score == pytest.approx(best)
    assert 0 < len(kept) < 3
    assert len(messages) == 6
    assert soup.evaluator["split"] == "dev"


def test_an_encoder_without_a_score_is_left_out(three, dev, tmp_path, monkeypatch):
    scores = iter([math.nan, 60.0, math.nan, 60.0])
    monkeypatch.setattr(_Scorer, "score", lambda *_: next(scores))
    soup = make_soup(tmp_path / "soup", three, "sts", dev)
    first, second, third = soup.parents
    assert (first.kept, second.kept, third.kept) == (False, True, False)
    assert soup.score == 60.0
    record = json.loads((tmp_path / "soup" / PARENTS_FILE).read_text())
    assert record["parents"][0]["score"] is None


def test_without_any_score_there_is_no_greedy_average(
    three, dev, tmp_path, monkeypatch
):
    monkeypatch.setattr(_Scorer, "score", lambda *_: math.nan)
    with pytest.raises(RunError, match="`sts` gives no encoder a score"):
        make_soup(tmp_path / "soup", three, "sts", dev)


def load(place):
    return Encoder.load(
        place if (place / "encoder.toml").is_file() else place / "encoder"
    )


def test_test_data_chooses_nothing(three, dev, tmp_path):
    with pytest.raises(
        RunError,
        match="a greedy average keeps what scores best, so it must not see test",
    ):
        make_soup(tmp_path / "soup", three, "sts", dev[:1])
    assert not (tmp_path / "soup").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"pooler": {"use": "first"}}, "differ in `pooler`"),
        ({"head": {"projection": 7, "normalize": True}}, "differ in `head`"),
        (
            {"backbone": {**TINY["backbone"], "lora": {}}},
            "has an adapter, and the mean of products",
        ),
        (
            {"head": {**TINY["head"], "transform": WHITENING}},
            "has a transform that was fitted to its vectors",
        ),
    ],
)
def test_encoders_of_other_recipes_are_refused(table, message, three, tmp_path):
    build(0, **table).fit_transform().save(tmp_path / "other")
    with pytest.raises(ModelError, match=message):
        make_soup(tmp_path / "soup", [three[0], tmp_path / "other"])
    assert not (tmp_path / "soup").exists()


def test_the_command_averages_and_wants_two_and_a_new_place(three, tmp_path):
    run = CliRunner().invoke
    output = str(tmp_path / "soup")
    result = run(main, ["soup", output, *map(str, three)])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{output}: the mean of 3 of 3 encoders\n"
    again = run(main, ["soup", output, *map(str, three)])
    assert again.exit_code
    assert "is not new" in again.output
    single = run(main, ["soup", str(tmp_path / "one"), str(three[0])])
    assert single.exit_code
    assert "an average needs several encoders" in single.output
