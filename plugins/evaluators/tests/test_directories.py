from __future__ import annotations

from pathlib import Path

import pytest
from sentbed_evaluators.geometry import Geometry
from sentbed_evaluators.senteval_sts import SentEvalSTS
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.transfer import SentEvalTransfer


@pytest.mark.parametrize(
    ("evaluator", "entry"),
    [(SentEvalSTS, "STS/STSBenchmark"), (SentEvalTransfer, "TREC"), (Geometry, "STS/STSBenchmark")],
)
def test_an_evaluator_says_which_directory_it_reads(
    evaluator: type, entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downstream = tmp_path / "senteval" / "downstream"
    (downstream / entry).mkdir(parents=True)
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert list(evaluator().files()) == [downstream]


def test_glue_is_read_from_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "glue" / "RTE").mkdir(parents=True)
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert list(SentGLUE().files()) == [tmp_path / "glue"]


def test_pairs_that_a_field_names_need_no_directory(tmp_path: Path) -> None:
    assert list(Geometry(path=str(tmp_path / "pairs.tsv")).files()) == []  # type: ignore[arg-type]
