"""Recipes of papers made small: two steps a stage, data of this machine."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import sentbed
from run_logs import events, finished_steps
from sample_sentences import in_chinese_characters, sample_sentences

SAMPLE = "pkg:sentbed_data/sample"
STEPS = 2


def local(table, directory, pairs=SAMPLE):
    """Settings that give a recipe data of this machine, for training and for every evaluation.

    Evaluations read `sts-dev.tsv` and `sts-test.tsv` in `pairs`.
    """
    development = f'{{ use = "sts", path = "{pairs}/sts-dev.tsv", split = "dev" }}'
    text = directory / "sentences.txt"
    other = directory / "translations.txt"
    sentences = sample_sentences()
    text.write_text("\n".join(sentences), "utf-8")
    other.write_text("\n".join(map(in_chinese_characters, sentences)), "utf-8")
    # Each premise has an entailment and a contradiction, of which triplets are made.
    labels = ("entailment", "neutral", "contradiction")
    rows = [
        f"{premise}\t{hypothesis}\t{label}"
        for premise, *hypotheses in zip(
            sentences, sentences[1:], sentences[2:], sentences[3:], strict=False
        )
        for hypothesis, label in zip(hypotheses, labels, strict=True)
    ]
    labelled = directory / "labelled.tsv"
    labelled.write_text(
        "\n".join(["premise\thypothesis\tlabel", *rows]) + "\n", "utf-8"
    )
    scored = directory / "scored.tsv"
    scores = [
        f"{first}\t{second}\t{k % 6}"
        for k, (first, second) in enumerate(itertools.pairwise(sentences))
    ]
    scored.write_text(
        "\n".join(["sentence1\tsentence2\tscore", *scores]) + "\n", "utf-8"
    )
    triplets = {"path": f"{SAMPLE}/triplets.csv", "config": ""}
    data = {
        "triplets": {
            **triplets,
            "anchor": "sent0",
            "positive": "sent1",
            "negative": "hard_neg",
        },
        "pairs": {
            **triplets,
            "header": "",
            "separator": "",
            "anchor": "sent0",
            "positive": "sent1",
        },
        "dropout": {"path": f"{SAMPLE}/triplets.csv", "column": "sent0"},
        "nli": {"path": str(labelled)},
        "nsp": {"path": str(text)},
        "parallel": {"anchor": str(text), "positive": str(other)},
        "scored": {
            "path": str(scored),
            "header": "",
            "separator": "",
            "anchor": "",
            "positive": "",
            "score": "",
            "score_range": [0, 5],
        },
        "sample": {},
    }
    parallel = json.dumps([str(text), str(other)])
    settings = []
    for place, encoder in encoder_tables(table):
        transform = encoder.get("head", {}).get("transform", {})
        if "data" in transform:
            source = transform["data"]["use"]
            for key, value in data[source].items():
                settings.append(f"{place}.head.transform.data.{key}={value}")
    for i, stage in enumerate(table.get("stage", ())):
        sources = stage["data"].get("sources", ())
        for place, source in (
            {f"stage.{i}.data.sources.{n}": source for n, source in enumerate(sources)}
            or {f"stage.{i}.data": stage["data"]}
        ).items():
            settings += [
                f"{place}.{key}={value}" for key, value in data[source["use"]].items()
            ]
        if "validate" in stage:
            settings.append(f"stage.{i}.validate.with={development}")
        for j, watch in enumerate(stage.get("watch", ())):
            settings.append(
                _geometry(
                    f"stage.{i}.watch.{j}.with",
                    watch["with"],
                    parallel,
                    f"{pairs}/sts-dev.tsv",
                )
            )
    for i, evaluate in enumerate(table.get("evaluate", ())):
        if evaluate["use"] == "geometry":
            settings.append(
                _geometry(f"evaluate.{i}", evaluate, parallel, f"{pairs}/sts-test.tsv")
            )
        elif evaluate["use"] == "encoding-cost" and "texts" in evaluate:
            settings.append(
                f'evaluate.{i}.texts={{ use = "sts", path = "{pairs}/sts-test.tsv" }}'
            )
        elif evaluate["use"] != "encoding-cost":
            kept = {
                key: evaluate[key]
                for key in ("encoder", "second", "at")
                if key in evaluate
            }
            new = {
                **kept,
                "use": "sts",
                "path": f"{pairs}/sts-test.tsv",
                "task": f"t{i}",
            }
            inline = ", ".join(
                f"{key} = {json.dumps(value)}" for key, value in new.items()
            )
            settings.append(f"evaluate.{i}={{ {inline} }}")
    return _of_keys_there(table, settings)


def encoder_tables(data):
    """The tables of a recipe's encoders with their places."""
    if "encoders" in data:
        return [
            (f"encoders.{name}", encoder) for name, encoder in data["encoders"].items()
        ]
    return [("encoder", data["encoder"])]


def _of_keys_there(table, settings):
    """Leave out settings that take out (`PATH=`) what is not there."""

    def there(path):
        place = table
        for key in path.split("."):
            if isinstance(place, list):
                place = dict(enumerate(place)).get(int(key), {})
            elif key in place:
                place = place[key]
            else:
                return False
        return True

    return [
        setting
        for setting in settings
        if not setting.endswith("=") or there(setting.removesuffix("="))
    ]


def _geometry(place, evaluator, parallel, pairs):
    if "parallel" in evaluator:
        return f"{place}.parallel={parallel}"
    return f"{place}.path={pairs}"


def short(table):
    """Settings that make batches, stages and evaluations small, for models that all have one width."""
    settings = []
    encoders = table.get("encoders", {})
    if len(encoders) > 1:
        for name in encoders:
            place = f"encoders.{name}"
            settings += [
                f"{place}.head.projection=",
                f"{place}.pooler.mlp_width=",
                f"{place}.pooler.pretrained=",
            ]
    for i, stage in enumerate(table.get("stage", ())):
        settings += [
            f"stage.{i}.epochs=",
            f"stage.{i}.steps={STEPS}",
            f"stage.{i}.batch_size=8",
        ]
        if "micro_batch" in stage:
            settings.append(f"stage.{i}.micro_batch=3")
        for j, watch in enumerate(stage.get("watch", ())):
            if "parallel" in watch["with"]:
                settings += [
                    f"stage.{i}.watch.{j}.with.pairs=40",
                    f"stage.{i}.watch.{j}.with.positives=10",
                ]
    for i, evaluate in enumerate(table.get("evaluate", ())):
        if evaluate["use"] == "encoding-cost":
            settings += [f"evaluate.{i}.sample=4", f"evaluate.{i}.repeats=1"]
            if "lengths" in evaluate:
                settings += [
                    f"evaluate.{i}.lengths=[16]",
                    f"evaluate.{i}.batch_sizes=[4]",
                ]
        elif "parallel" in evaluate:
            settings += [f"evaluate.{i}.pairs=40", f"evaluate.{i}.positives=10"]
    return _of_keys_there(table, settings)


def runs_small(recipe, directory):
    """Run a recipe, and look at what it has done step by step."""
    run = sentbed.run(recipe, directory / "run")
    steps = finished_steps(run.directory)
    assert [(step["stage"], step["step"]) for step in steps] == [
        (stage.name, step) for stage in recipe.stage for step in range(1, STEPS + 1)
    ]
    assert all(math.isfinite(step["loss"]) for step in steps)
    log = events(run.directory)
    validated = [e["stage"] for e in log if e["event"] == "validated"]
    # Before the first step and after the last one.
    assert validated == [
        name for name in stages_with_validation(recipe) for _ in range(2)
    ]
    watched = [e["stage"] for e in log if e["event"] == "observed"]
    assert watched == [
        stage.name for stage in recipe.stage for _ in range(2 * len(stage.watch))
    ]
    assert {score.encoder for score in run.scores} == {
        e.encoder or "encoder" for e in recipe.evaluate
    }
    for encoder in recipe.encoders:
        place = run.directory / "encoder"
        vectors = sentbed.Encoder.load(
            place if len(recipe.encoders) == 1 else place / encoder
        ).encode(["A cat sits on the mat.", "A dog barks at night."])
        assert np.isfinite(vectors).all()
        assert not np.allclose(vectors[0], vectors[1], atol=1e-6)


def stages_with_validation(recipe):
    """The names of the stages that validate."""
    return [stage.name for stage in recipe.stage if stage.validate is not None]


def require_packages(text):
    """Skip where a recipe needs packages for adapters and 4-bit weights that are not there."""
    if "qlora" in text or '"nf4"' in text:
        for package in ("peft", "bitsandbytes", "accelerate"):
            pytest.importorskip(
                package, reason="needs the extra `qlora` of sentbed-backbones"
            )
