"""`sentbed reproduce --verify` with models of the hub: random weights do not meet the published numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import sentbed
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed_studies.verification import INCOMPLETE

PAPERS = Path(__file__).parent.parent / "recipes" / "papers"
ROWS = 40


@pytest.fixture
def sts_benchmark(tmp_path):
    """A directory of SentEval in which STS-B alone is, made of sentences of the bundled sample."""
    directory = tmp_path / "downstream"
    (directory / "STS" / "STSBenchmark").mkdir(parents=True)
    with sentbed.locate("pkg:sentbed_data/sample/sts-test.tsv").open(
        encoding="utf-8", newline=""
    ) as file:
        pairs = list(csv.DictReader(file, delimiter="\t"))[:ROWS]
    lines = []
    for number, pair in enumerate(pairs):
        lines.append(
            f"main\tsample\t2026\t{number}\t{pair['score']}\t{pair['sentence1']}\t{pair['sentence2']}"
        )
    for part in ("train", "dev", "test"):
        (directory / "STS" / "STSBenchmark" / f"sts-{part}.csv").write_text(
            "\n".join(lines) + "\n", "utf-8"
        )
    return directory


@pytest.mark.slow
def test_random_weights_do_not_meet_a_paper_and_a_missing_model_is_not_run(
    zoo, connected, sts_benchmark, tmp_path
):
    zoo.publish(connected, "facebook/opt-125m")
    # Other tests may have published it.
    connected.repositories.pop("princeton-nlp/unsup-simcse-roberta-base", None)
    only = ["--only", "system=PromptEOL OPT 125M", "--only", "system=SimCSE-RoBERTa"]
    where = ["--recipes", str(PAPERS), "--out", str(tmp_path / "studies")]
    data = [
        "--set",
        f"evaluate.0.data_dir={sts_benchmark}",
        "--set",
        "evaluate.0.check_sizes=false",
    ]
    command = ["reproduce", "--verify", "prompteol", *where, *data, "--workers", "1"]

    first = CliRunner().invoke(main, [*command, *only])
    assert first.exit_code == 1, first.output
    # Progress of downloads is among the lines.
    opt, simcse = [
        line for line in first.output.splitlines() if line.startswith("prompteol: ")
    ][-2:]
    assert opt.startswith("prompteol: PromptEOL OPT 125M")
    assert opt.endswith("not met: 0 of 1 number within, 7 not measured")
    assert simcse.startswith("prompteol: SimCSE-RoBERTa")
    assert "not run: " in simcse
    assert "unsup-simcse-roberta-base" in simcse

    # What has finished is not run again, and its numbers count again.
    requests_before = len(connected.requests)
    again = CliRunner().invoke(main, [*command, *only[:2]])
    assert again.exit_code == 1, again.output
    checks = [
        line for line in again.output.splitlines() if line.startswith("prompteol: ")
    ]
    assert checks[0].endswith("finished")
    assert not [
        name
        for name in connected.fetched(requests_before)
        if name.endswith((".bin", ".safetensors"))
    ]

    missing = CliRunner().invoke(main, [*command, *only[2:]])
    assert missing.exit_code == INCOMPLETE, missing.output
