"""Tokenizers and adapters of strangers: what has no end, or makes gigabytes of a text, is refused in time."""

from __future__ import annotations

import json
import time

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import ModelError
from sentbed_backbones import untrusted_files
from sentbed_backbones.model_file_checks import problems_of
from sentbed_backbones.untrusted_files import (
    require_bounded_expressions,
    require_bounded_tokenizer,
    run_in_limits,
)

pytestmark = pytest.mark.slow


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def write_tokenizer(directory, normalizer=None, **parts):
    """Write a word-level tokenizer with this normaliser."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    table = {**json.loads(tokenizer.to_str()), "normalizer": normalizer, **parts}
    directory.mkdir(exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(table))
    return directory


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))


def test_a_tokenizer_that_passed_is_not_tried_again(tmp_path, monkeypatch):
    steps = [
        {"type": "Lowercase"},
        replace({"String": " "}, "▁"),
        {"type": "Prepend", "prepend": "▁"},
    ]
    model = write_tokenizer(
        tmp_path / "model", {"type": "Sequence", "normalizers": steps}
    )
    require_bounded_tokenizer(model)
    monkeypatch.setattr(untrusted_files, "PROGRAM", tmp_path / "none")
    require_bounded_tokenizer(model)
    write_tokenizer(model, {"type": "Lowercase"})
    with pytest.raises(ModelError, match="failed in a trial"):
        require_bounded_tokenizer(model)


@pytest.mark.parametrize("name", ["tokenizer.json", "added_tokens.json", "vocab.json"])
@pytest.mark.parametrize("number", [(1 << 24) + 1, 2**32 - 1, 1e300])
def test_a_token_with_a_number_beyond_every_vocabulary_is_refused(
    name, number, tmp_path
):
    """Saving such a tokenizer takes memory and time in proportion to the number."""
    model = write_tokenizer(tmp_path / "model")
    vocabulary = {"[UNK]": 0, "a": number}
    content = vocabulary
    if name == "tokenizer.json":
        content = json.loads((model / name).read_bytes())
        content["model"]["vocab"] = vocabulary
    (model / name).write_text(json.dumps(content))
    with pytest.raises(
        ModelError,
        match=rf"`.*{name}` gives the token 'a' the number .*, and at most 16,",
    ):
        require_bounded_tokenizer(model)


def test_an_added_token_with_a_number_beyond_every_vocabulary_is_refused(
    tmp_path,
):
    token = {"id": 2**31, "content": "[X]", "special": True}
    model = write_tokenizer(tmp_path / "model", added_tokens=[token])
    with pytest.raises(
        ModelError, match=r"gives the token '\[X\]' the number 2,147,483,648"
    ):
        require_bounded_tokenizer(model)


@pytest.mark.parametrize(
    "added",
    [5, {"a": 1}, [3], [{"content": [], "id": 1}], [{"content": {}, "id": "x"}]],
)
def test_added_tokens_that_are_none_end_in_a_sentence(added, tmp_path):
    model = write_tokenizer(tmp_path / "model")
    content = json.loads((model / "tokenizer.json").read_bytes())
    (model / "tokenizer.json").write_text(
        json.dumps({**content, "added_tokens": added})
    )
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        require_bounded_tokenizer(model)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    letter=st.sampled_from("abz ☃"),
    times=st.integers(2, 60),
    count=st.integers(1, 9),
    is_regex=st.booleans(),
    depth=st.integers(0, 3),
)
def test_a_normaliser_that_grows_texts_beyond_the_limit_is_refused(
    letter, times, count, is_regex, depth, tmp_path
):
    """Also where no text of the trial has the letter."""
    growth = times**count
    pattern = {"Regex" if is_regex else "String": letter}
    normalizer = {
        "type": "Sequence",
        "normalizers": [replace(pattern, letter * times)] * count,
    }
    for _ in range(depth):
        normalizer = {"type": "Sequence", "normalizers": [normalizer]}
    model = write_tokenizer(tmp_path / "model", normalizer)
    file = model / "tokenizer.json"
    is_refused = False
    try:
        untrusted_files._require_bounded_normalizer(
            file, json.loads(file.read_bytes())["normalizer"]
        )
    except ModelError:
        is_refused = True
    assert is_refused is (growth > untrusted_files.MOST_GROWTH)


def test_a_text_of_ten_megabytes_before_each_is_refused(tmp_path):
    model = write_tokenizer(
        tmp_path / "model", {"type": "Prepend", "prepend": "x" * 10_000_000}
    )
    with pytest.raises(
        ModelError,
        match="puts 10,000,000 characters into texts at a time, and at most 100",
    ):
        require_bounded_tokenizer(model)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", {"added_tokens": [{"id": 1}] * 100_000}),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": dict.fromkeys(map(str, range(100_000)))},
        ),
        ("tokenizer_config.json", {"additional_special_tokens": ["x"] * 100_000}),
        ("special_tokens_map.json", {"additional_special_tokens": ["x"] * 100_000}),
        ("tokenizer_config.json", {"extra_special_tokens": ["x"] * 100_000}),
        ("added_tokens.json", {str(number): number for number in range(100_000)}),
    ],
)
def test_a_hundred_thousand_added_tokens_are_refused(name, content, tmp_path):
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(
        ModelError, match="adds 100,000 tokens to the vocabulary, more than the 20,000"
    ):
        require_bounded_tokenizer(tmp_path)


def test_tokens_around_a_text_beyond_the_limit_are_refused(tmp_path):
    part = {"SpecialToken": {"id": "a", "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [part] * 5_000 + [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"a": {"id": "a", "ids": [1], "tokens": ["a"]}},
    }
    model = write_tokenizer(tmp_path / "model", post_processor=template)
    with pytest.raises(
        ModelError, match="makes 0 characters and 5,000 tokens of a text of 0"
    ):
        require_bounded_tokenizer(model)


def test_an_expression_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted_files, "SECONDS", 1)
    started = time.monotonic()
    with pytest.raises(ModelError, match="did not end within 1 s"):
        require_bounded_expressions(
            [r"(a|a)*b"], ["encoder", "a" * 60], tmp_path / "adapter_config.json"
        )
    assert time.monotonic() - started < 20


def test_memory_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted_files, "MEMORY", 300 << 20)
    steps = [replace({"String": "a"}, "a" * 10)] * 6
    model = write_tokenizer(
        tmp_path / "model", {"type": "Sequence", "normalizers": steps}
    )
    with pytest.raises(ModelError, match=r"trial"):
        run_in_limits(
            "tokenize",
            {"file": str(model / "tokenizer.json"), "texts": ["a" * 2000]},
            "it",
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [("num_labels", 10**8), ("hidden_size", 10**9), ("vocab_size", 10**9)],
)
def test_sizes_that_no_model_has_are_refused(key, value, tmp_path):
    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "bert", key: value})
    )
    assert [
        problem
        for problem in problems_of(tmp_path, False, False)
        if f"says `{key}` = 1e+0" in problem
    ]


def test_a_trial_knows_no_keys_and_tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("SENTBED_PROCESS_KEY", "secret")
    program = tmp_path / "shows_environment.py"
    program.write_text("import json, os\nprint(json.dumps(dict(os.environ)))\n")
    monkeypatch.setattr(untrusted_files, "PROGRAM", program)
    environment = run_in_limits("tokenize", {}, "it")
    assert "secret" not in environment.values()
    assert environment["RAYON_NUM_THREADS"] == "1"
