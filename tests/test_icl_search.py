"""A demonstration search on STS-B dev, killed half way, goes on where it was."""

from __future__ import annotations

import json
from functools import partial

import pytest
import sentbed
import torch
from sentbed.protocols import BuildContext
from sentbed_backbones.opt import Opt
from sentbed_processes import finish, kill, start, wait_until
from sentbed_studies.demonstration_search_config import Search

pytestmark = pytest.mark.slow

RECIPE = """\
schema = 1
[run]
name = "icl"
[runtime]
use = "cpu"
[encoder]
backbone = {{ use = "opt", model = "{model}" }}
pooler = {{ use = "prompt-eol" }}
max_length = 64
[search]
candidates = "data:icl/demonstrations_300.txt"
limit = 20
with = {{ use = "senteval-sts", tasks = ["{task}"] }}
[[evaluate]]
use = "senteval-sts"
tasks = ["STSB-dev"]
"""


def journal(directory):
    file = directory / "search.jsonl"
    return file.read_bytes().splitlines(keepends=True) if file.exists() else []


@pytest.fixture
def recipe(tmp_path, data_directory):
    dev = (
        data_directory
        / "senteval"
        / "downstream"
        / "STS"
        / "STSBenchmark"
        / "sts-dev.csv"
    )
    texts = [
        field
        for line in dev.read_text("utf-8").splitlines()
        for field in line.split("\t")[5:7]
    ]
    torch.manual_seed(0)
    Opt(init="random", vocab_size=2000).build(BuildContext(lambda: texts)).save(
        tmp_path / "opt"
    )
    file = tmp_path / "icl.toml"
    file.write_text(RECIPE.format(model=tmp_path / "opt", task="STSB-dev"))
    return file


@pytest.mark.slow
def test_a_search_that_was_killed_half_way_does_not_do_the_first_half_again(
    recipe, tmp_path, data_directory
):
    out = tmp_path / "search"
    search = partial(start, "search", recipe, "--out", out, directory=tmp_path)
    first = search()
    # A header, the prompt without a demonstration, and ten of the twenty candidates.
    wait_until(lambda: len(journal(out)) >= 12, first)
    kill(first)
    half = [line for line in journal(out) if line.endswith(b"\n")]
    assert 12 <= len(half) < 22

    _, errors = finish(search())
    assert f"taken over from {out / 'search.jsonl'}: {len(half) - 1} of 21" in errors
    whole = journal(out)
    assert whole[: len(half)] == half
    assert len(whole) == 22

    scores = [json.loads(line)["score"] for line in whole[2:]]
    assert len(set(scores)) > 10
    resolved = sentbed.load_recipe(out / "resolved.toml")
    prompt = resolved.encoders["encoder"].prompt
    assert resolved.table(Search) is None
    assert prompt is not None
    assert prompt.demonstration is not None
    best = json.loads(whole[2 + scores.index(max(scores))])
    assert prompt.demonstration.text in json.dumps(best["prompt"], ensure_ascii=False)
    result = sentbed.run(resolved, tmp_path / "run")
    assert result.scores[0].value == pytest.approx(max(scores), abs=1e-6)


def test_a_test_set_is_refused(recipe, tmp_path):
    recipe.write_text(RECIPE.format(model=tmp_path / "opt", task="STSB"))
    with pytest.raises(sentbed.RecipeError, match=r"STSB-dev"):
        sentbed.load_recipe(recipe)
