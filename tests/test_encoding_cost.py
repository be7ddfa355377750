"""What encoding takes: counted by hand, against `sentbed plan`, and whatever was kept before."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from random_encoders import random_encoder
from sentbed._cli.main import main
from sentbed._registry.registry import load_plugins
from sentbed.protocols import BuildContext, TokenIds, Tokenizer
from sentbed_evaluators.encoding_cost import EncodingCost
from sentbed_evaluators.sts import STS
from sentbed_studies import load_study
from sentbed_workbench._torch.fake_modules import backbone_cost, fake_backbone
from sentbed_workbench.vector_cache import VectorCache

EOL, COT = {"template": "prompt-eol"}, {"template": "pretended-cot"}


class Words(Tokenizer):
    """One token a word, after a token for the start."""

    pad_id = 1

    def encode(self, texts, max_length):
        rows = [
            [2, *(3 + sum(word.encode()) % 290 for word in text.split())][:max_length]
            for text in texts
        ]
        offsets = np.cumsum([0, *map(len, rows)])
        return TokenIds(
            np.array([token for row in rows for token in row], np.int32), offsets
        )

    def truncate(self, texts, max_length):
        return [" ".join(text.split()[:max_length]) for text in texts]


@pytest.fixture
def texts(tmp_path):
    """Three distinct texts of one, two and three words."""
    file = tmp_path / "pairs.tsv"
    file.write_text(
        "sentence1\tsentence2\tscore\nred fish\tcat\t1\nold grey dogs\tcat\t2\n"
    )
    return STS(str(file))


def built(
    prompt=None,
    pooler="prompt-eol",
    runtime=None,
    **backbone,
):
    """Return a random encoder; an OPT of four layers unless said otherwise."""
    table = {
        "use": "opt",
        "init": "random",
        "size": "mini",
        "vocab_size": 300,
        "dropout": 0.0,
        **backbone,
    }
    base_table = {"backbone": table, "pooler": {"use": pooler}, "max_length": 16}
    encoder_table = base_table if prompt is None else {**base_table, "prompt": prompt}
    return random_encoder(encoder_table, ("a few words more",), runtime)


def costs(encoder, texts, **more):
    scores = encoder.evaluate(EncodingCost(texts, repeats=1), "encoder", **more).scores
    return {score.task: score.value for score in scores}


def counted(costs):
    """Return what is counted, which is the same every time."""
    return {
        task: value for task, value in costs.items() if not task.endswith("seconds")
    }


def test_a_shared_prefix_is_computed_once_and_every_prompt_is_a_pass(
    texts,
):
    # The start and five words before the sentence, one behind it.
    long = {"template": "what five plain words say {text} end", "normalizer": "none"}
    # The start and one word: too few to be computed apart.
    short = {"template": "say {text}", "normalizer": "none"}
    encoder = built(long)
    encoder.backbone.tokenizer = Words()
    one_prompt = costs(encoder, texts)
    assert one_prompt["passes"] == 1
    assert one_prompt["tokens"] == pytest.approx((6 + (1 + 1) + (2 + 1) + (3 + 1)) / 3)
    assert one_prompt["tokens-unshared"] == pytest.approx((8 + 9 + 10) / 3)
    # One batch, as long as its longest text.
    assert one_prompt["padding"] == pytest.approx((2 + 1 + 0) / 3)

    encoder = built([long, short])
    encoder.backbone.tokenizer = Words()
    two_prompts = costs(encoder, texts)
    assert two_prompts["passes"] == 2
    assert two_prompts["tokens"] == pytest.approx(
        one_prompt["tokens"] + (3 + 4 + 5) / 3
    )
    assert two_prompts["tokens-unshared"] == pytest.approx(
        one_prompt["tokens-unshared"] + (3 + 4 + 5) / 3
    )
    assert two_prompts["padding"] == pytest.approx(
        one_prompt["padding"] + (2 + 1 + 0) / 3
    )
    assert (one_prompt["parameters"], two_prompts["parameters"]) == (
        one_prompt["parameters"],
    ) * 2


def test_a_backbone_that_shares_no_prefix_computes_it_in_every_text(texts):
    bert_costs = costs(built(EOL, "mean", use="bert"), texts)
    assert bert_costs["tokens"] == bert_costs["tokens-unshared"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", ["bert", "opt", "causal", "t5"])
def test_operations_are_those_that_a_plan_has_for_the_batches(kind, tmp_path):
    file = tmp_path / "same.tsv"
    file.write_text("sentence1\tsentence2\tscore\nred\tcat\t1\nfish\tcat\t2\n")
    encoder = built(None, "mean", use=kind)
    encoder.backbone.tokenizer = Words()
    measured = costs(encoder, STS(str(file)))
    assert measured["padding"] == 0
    needs = encoder.recipe.pooler.needs
    context = BuildContext(tuple, needs=needs, shapes_only=True)
    fake = fake_backbone(encoder.recipe.backbone, context)
    batch = (1, round(measured["tokens"]))
    planned = backbone_cost(fake, [batch], "fp32", "cpu", False).operations / 1e9
    # A random model has as many words as its tokenizer, the plan as many as it may; they decide no product.
    assert measured["operations"] == pytest.approx(planned, rel=1e-6)


def test_a_pass_that_ends_early_costs_its_share_of_the_blocks(texts):
    whole = costs(built(EOL), texts)
    half = costs(built(EOL, layers=[2]), texts)
    assert half["operations"] == pytest.approx(whole["operations"] / 2, rel=1e-6)
    assert half["tokens"] == whole["tokens"]


def test_operations_of_several_prompts_are_the_sum_of_those_of_each(texts):
    both = costs(built([EOL, COT]), texts)
    assert both["operations"] == pytest.approx(
        sum(costs(built(prompt), texts)["operations"] for prompt in (EOL, COT)),
        rel=1e-6,
    )


@pytest.mark.sweep(1)
@pytest.mark.parametrize("prompt", [EOL, [EOL, COT]], ids=["one", "two"])
def test_what_was_encoded_or_kept_before_changes_no_count(prompt, texts, tmp_path):
    fresh = counted(costs(built(prompt), texts))
    assert {"operations", "memory", "parameters"} <= fresh.keys()
    encoder, store = built(prompt), VectorCache(tmp_path / "cache")
    # The prefix's states are in the backbone then, and the vectors in the store.
    encoder.evaluate(texts, "encoder", store=store)
    assert counted(costs(encoder, texts, store=store)) == fresh
    assert counted(costs(encoder, texts)) == fresh


@pytest.mark.jax
def test_under_jax_passes_tokens_and_parameters_are_counted(texts):
    pytest.importorskip("sentbed_tpu", reason="needs sentbed-tpu")
    tpu = load_plugins().load("runtime", "tpu")(platform="cpu")
    torch_costs, jax_costs = (
        costs(built([EOL, COT], runtime=runtime), texts) for runtime in (None, tpu)
    )
    assert jax_costs.keys() == torch_costs.keys() - {"operations", "memory"}
    # It shares no prefix, and pads to the lengths that it has compiled.
    assert (
        jax_costs["tokens"]
        == jax_costs["tokens-unshared"]
        == torch_costs["tokens-unshared"]
    )
    assert (jax_costs["passes"], jax_costs["parameters"]) == (
        torch_costs["passes"],
        torch_costs["parameters"],
    )


STUDY = """
schema = 1
[run]
name = "costs"
[runtime]
use = "cpu"
threads = 1
[encoder]
max_length = 16
backbone = {{ use = "opt", model = "{model}" }}
pooler = {{ use = "mean" }}
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
[[evaluate]]
use = "encoding-cost"
texts = {{ use = "sts", path = "pkg:sentbed_data/sample/sts-test.tsv" }}
sample = 20
repeats = 1
[study]
cost = "operations"
[study.axes.pooler]
path = "encoder.pooler.use"
values = ["mean", "last"]
"""


@pytest.mark.slow
def test_cells_that_share_a_pass_cost_what_they_cost_alone(tmp_path):
    built().save(tmp_path / "opt")
    recipe = tmp_path / "study.toml"
    recipe.write_text(STUDY.format(model=tmp_path / "opt" / "backbone"))
    costs_of_studies = []
    for name, options in (("shared", ()), ("alone", ("--no-share",))):
        out = tmp_path / name
        words = ["study", str(recipe), "--workers", "1", "--out", str(out), *options]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        assert ("shared: one pass of the backbone for 2 runs" in result.output) is (
            name == "shared"
        )
        runs = [run for cell in load_study(out).data.cells for run in cell.runs]
        costs = [
            {s.task: s.value for s in run.scores if s.axis == "cost"} for run in runs
        ]
        costs_of_studies.append([counted(cost) for cost in costs])
        assert "against" in load_study(out).figures["cost"]
    assert costs_of_studies[0] == costs_of_studies[1]
    assert [cost["passes"] for cost in costs_of_studies[0]] == [1.0, 1.0]
    assert all(cost["operations"] > 0 for cost in costs_of_studies[0])
