from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import build_encoder
from sentbed._cli import main as cli
from sentbed.protocols import TextTask
from sentbed_corpus import open_vectors


@pytest.fixture
def encode(encoder, tmp_path, monkeypatch):
    """Run `sentbed encode` with an encoder of the toy plugin."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, input=None):
        return CliRunner().invoke(
            cli.main,
            ["encode", "encoder", *arguments, "--runtime", "toy"],
            input=input,
        )

    return run


def test_a_directory_takes_several_inputs_and_says_how_fast_it_was(encode, put):
    put("a.txt", "one\ntwo\n")
    put("b.jsonl", '{"t": "three"}\n')
    arguments = (
        "--input",
        "a.txt",
        "--input",
        "*.jsonl",
        "--column",
        "t",
        "--output",
        "out",
        "--shard-rows",
        "1",
    )
    result = encode(*arguments)

    assert (result.exit_code, result.stdout) == (0, "")
    assert re.fullmatch(r"out: 3 texts, shards: 3, \d+ texts/s\n", result.stderr)
    assert [shard.shape for shard in open_vectors("out")] == [(1, 4)] * 3
    assert (
        encode(*arguments).stderr
        == "3 of 3 shards are there; none to encode\nout: 3 texts, shards: 3\n"
    )


@pytest.mark.parametrize("source", ["a.txt", "-"])
def test_a_file_takes_all_texts_in_one_array(source, encode, encoder, put):
    put("a.txt", "one\ntwö\n\n")
    options = ("--dtype", "float16", "--precision", "fp64")
    lines = "one\ntwö\n\n"
    result = encode("--input", source, "--output", "o.npy", *options, input=lines)

    assert (result.exit_code, result.stderr) == (0, "o.npy: 3 x 4\n")

    expected = encoder.encode(["one", "twö", ""]).astype(np.float16)
    np.testing.assert_array_equal(np.load("o.npy"), expected)

    put("b.txt", b"fine\ncaf\xe9\n")
    refused = encode("--input", "a.txt", "--input", "b.txt", "--output", "o.npy")
    assert "byte 0xe9 (number 4 of the line) is not utf-8" in refused.stderr

    put("empty.txt", "")
    refused = encode("--input", "empty.txt", "--output", "o.npy")
    assert "the input is empty" in refused.stderr
    np.testing.assert_array_equal(np.load("o.npy"), expected)


def test_two_workers_of_this_machine_encode(encode, put):
    put("a.txt", "one\ntwo\nthree\n")
    result = encode(
        "--input", "a.txt", "--output", "out", "--shard-rows", "1", "--workers", "2"
    )
    assert (result.exit_code, len(open_vectors("out"))) == (0, 3)


def test_overwrite_starts_again(encode, put):
    put("a.txt", "one\n")
    arguments = ("--input", "a.txt", "--output", "out")
    encode(*arguments)
    refused = encode(*arguments, "--shard-rows", "9")

    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        "error: `out` has vectors of another request: `shard_rows` was 65536 and is 9;"
    )
    assert encode(*arguments, "--shard-rows", "9", "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--input", "a.txt", "--output", "o.npy", "--workers", "2"),
            "is written by this process",
        ),
        (
            ("--input", "-", "--output", "out"),
            "standard input can be encoded into a `.npy` file only",
        ),
        (
            ("--input", "a.txt", "--output", "out", "--set", "threads=2"),
            "found `--set threads=2`, expected a field of the runtime, `--set runtime.FIELD=VALUE`",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    arguments, message, encode, put
):
    put("a.txt", "a\n")
    result = encode(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("out").exists()
    assert not Path("o.npy").exists()


@pytest.mark.parametrize(
    "setting", [("--precision", "fp8"), ("--set", "runtime.precision=fp8")]
)
def test_a_wrong_runtime_is_shown_as_elsewhere(setting, encode, put):
    put("a.txt", "a\n")
    result = encode("--input", "a.txt", "--output", "out", *setting, "--workers", "2")

    assert result.exit_code == 2
    assert (
        "found 'fp8', expected one of `fp32`, `fp64` @ runtime.precision"
        in result.stderr
    )
    assert not Path("out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it_with_a_message_and_what_is_done_stays(
    name, encode, put, installed_toy, tmp_path
):
    texts = [f"t{chr(97 + i % 26)}" for i in range(200)]
    put("a.txt", "\n".join(texts))
    arguments = [
        "encoder",
        "--input",
        "a.txt",
        "--output",
        "out",
        "--shard-rows",
        "1",
        "--workers",
        "2",
    ]
    path = os.pathsep.join([str(installed_toy), str(Path(toy_plugin.__file__).parent)])
    process = subprocess.Popen(
        [sys.executable, "-m", "sentbed", "encode", *arguments, "--runtime", "toy"],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(list(Path("out").glob("vectors/part-*"))) < 9:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=20)

    assert process.returncode == 130
    assert re.fullmatch(
        r"interrupted\n\d+ of 200 shards are finished and stay; .*\n", errors
    )
    # A worker that is ended while it writes leaves a hidden file.
    files = list(Path("out").glob("vectors/part-*"))
    assert 0 < len(files) < 200
    assert all(np.load(file).shape == (1, 4) for file in files)
    assert encode(*arguments[1:]).exit_code == 0
    assert len(open_vectors("out")) == 200


TASK_PROMPTS = (
    'task_prompts = { query = { template = "q {text}" }, '
    '"SciFact" = { template = "{instruction}: {text}" } }'
)


@pytest.fixture
def encoder_with_prompts(encode, recipe_of, tmp_path):
    """The encoder on disk, with prompts of tasks."""
    recipe = toy_plugin.RECIPE.replace("pooler", f"{TASK_PROMPTS}\npooler", 1)
    encoder = build_encoder(recipe_of(recipe))
    shutil.rmtree(tmp_path / "encoder")
    encoder.save(tmp_path / "encoder")
    return encoder


@pytest.mark.parametrize("output", ["out", "out.npy"])
def test_texts_have_the_prompt_that_is_asked_for(
    output, encode, encoder_with_prompts, put
):
    put("a.txt", "one\ntwo\n")
    arguments = ("--input", "a.txt", "--output", output)

    assert encode(*arguments, "--prompt", "QUERY").exit_code == 0

    if output == "out":
        (vectors,) = open_vectors(output)
    else:
        vectors = np.load(output)
    query = encoder_with_prompts.for_task(TextTask(side="query"))
    np.testing.assert_array_equal(vectors, query.encode(["one", "two"]))

    if output == "out":
        refused = encode(*arguments)
        assert "`prompt` was 'QUERY' and is ''" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--prompt", "qery"),
            "the encoder has no prompt `qery`. Did you mean `query`?",
        ),
        (("--prompt", "SciFact"), "has `{instruction}`, and the task `SciFact` gives"),
        (("--instruction", "Find"), "`--instruction` stands in a prompt: name it"),
    ],
)
def test_a_prompt_that_the_encoder_has_not_is_refused(
    arguments,
    message,
    encode,
    encoder_with_prompts,
    put,
):
    put("a.txt", "one\n")
    result = encode("--input", "a.txt", "--output", "out.npy", *arguments)

    assert result.exit_code != 0
    assert message in result.stderr
    assert not Path("out.npy").exists()
