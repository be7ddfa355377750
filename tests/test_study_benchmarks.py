"""The simulations of studies run, and decide as `[study.stop]` does."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def sequential(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("sequential_studies")


@pytest.fixture
def settings(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("stopping_settings")


def run(module, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", [module.__name__, *words])
    module.main()


def test_simulated_variances_over_items_are_those_of_the_product(
    sequential,
):
    sequential.require_variances_of_the_product()
    # Of studies that are drawn together, each has its own.
    values = np.random.default_rng(1).normal(size=(2, 3, 4, 20))
    together = sequential.VariancesOverItems.of(values).after((0, 2, 3))
    for study in range(2):
        alone = sequential.VariancesOverItems.of(values[study][:, [0, 2, 3]]).after(
            range(3)
        )
        assert together[study] == pytest.approx(alone)


def test_sequential_studies_run(sequential, monkeypatch, tmp_path):
    words = ["--studies", "2", "--cells", "3", "--seeds", "3", "--items", "20"]
    run(sequential, monkeypatch, *words, "--json", str(tmp_path / "out.json"))
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert len(rows) == 2 * len(sequential.scenarios(3))
    assert {row["procedure"] for row in rows} == {"sentbed", "by hand"}


def test_studies_that_are_said_to_claim_nothing_claim_nothing(settings, monkeypatch):
    """At a rate at which many studies claim something, in a planned study and one with exchanged seeds."""
    monkeypatch.setattr(settings, "ERROR_RATE", 0.9)
    rng = np.random.default_rng(0)
    claiming = silent = 0
    for history in ("planned", "exchanged"):
        setting = settings.Setting(
            4, 3, 20, seed_factors=(3.0, 1.0, 1.0, 1.0), history=history
        )
        drawn = settings.Drawn.of(setting, 40, rng)
        for mode in ("best", "baseline", "stays"):
            may_claim = settings.may_claim(drawn, mode)
            claims = [settings.decide(drawn, study, mode).claims for study in range(40)]
            assert not any(
                count for count, may in zip(claims, may_claim, strict=True) if not may
            )
            claiming += sum(map(bool, claims))
            silent += int((~may_claim).sum())
    assert claiming > 20
    assert silent > 20


def test_stopping_settings_run(settings, monkeypatch, tmp_path):
    names = ("one 2 x", "seeds one by one, one 4 x")
    run(
        settings,
        monkeypatch,
        *names,
        "--studies",
        "3",
        "--json",
        str(tmp_path / "out.json"),
    )
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["mode"] for row in rows] == 2 * ["best", "baseline", "stays"]
    assert all(row["studies"] == 3 for row in rows)
