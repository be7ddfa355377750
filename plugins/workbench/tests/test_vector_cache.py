from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import ClassVar

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from sentbed import Encoder, RunError, build_encoder
from sentbed._cli import main as cli
from sentbed._recipe.load import load_recipe
from sentbed._run.runner import run
from sentbed.protocols import (
    Evaluation,
    Evaluator,
    Prepared,
    Score,
    Texts,
    Validate,
)
from sentbed.tools import code_of_package
from sentbed_common import fingerprint_of
from sentbed_poolers.template_prompt import Demonstration, TemplatePrompt
from sentbed_workbench import vector_cache as vectors
from sentbed_workbench.plugin import vector_store
from sentbed_workbench.vector_cache import (
    HEADER_SIZE,
    SEGMENT,
    VectorCache,
)
from toy_plugin import (
    RECIPE,
    TOWERS,
    Across,
    Average,
    CharacterTokenizer,
    Engine,
    Gap,
    Placed,
    quicken,
)

TEXTS = ["one", "two and three", "", "one", "a longer sentence"]
SPACE = "w"
QUOTED = TemplatePrompt(template='Say "{text}" is "')


@attrs.frozen
class Sum(Evaluator):
    """Adds up the vectors of `texts`, which it asks for list by list."""

    name: ClassVar[str] = "sum"
    lists: tuple[tuple[str, ...], ...] = (tuple(TEXTS), ("another", "list"))
    development = True

    def prepare(self):
        lists = {}
        for number, texts in enumerate(self.lists):
            lists[str(number)] = Texts(texts)

        return Prepared(lists, self._score)

    def _score(self, vectors):
        value = 0.0
        for number in range(len(self.lists)):
            total = vectors[str(number)].sum()
            value += (number + 1) * total

        value = float(value)
        score = Score("sum", "sum", value, {"id": "sum"})
        return Evaluation((score,), value)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quicken(monkeypatch)


@pytest.fixture
def encoder(recipe_of):
    return build_encoder(recipe_of())


@pytest.fixture
def store(tmp_path):
    return VectorCache(tmp_path / "vectors")


def value_of(encoder, store, evaluator=None):
    evaluation = encoder.evaluate(evaluator or Sum(), "e", store=store)
    return evaluation.primary


def passes(encoder):
    """How often the encoder has encoded a batch."""
    return len(encoder.placed.batches)


def drawn(texts):
    """Random vectors, others with every call."""
    drawn.calls.append(list(texts))
    seed = len(drawn.calls)
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((len(texts), 3))
    return rows.astype(np.float32)


def kept(store, texts, space=SPACE):
    """The vectors that a store has of texts, or that it draws and keeps."""
    return store.encode(space, texts, drawn, 3)


@pytest.fixture(autouse=True)
def calls():
    drawn.calls = []
    return drawn.calls


def segments(store):
    return sorted(store.root.glob(f"*/*{SEGMENT}"))


# --- what is found again -----------------------------------------------------------------------------------


def test_a_second_evaluation_takes_every_vector_from_the_store(encoder, store):
    without = value_of(encoder, None)
    before = passes(encoder)

    cold = value_of(encoder, store)
    assert passes(encoder) == 2 * before
    assert (store.taken, store.encoded) == (0, 6)

    warm = value_of(encoder, store)
    assert passes(encoder) == 2 * before
    assert (store.taken, store.encoded) == (6, 6)
    assert without == cold == warm


def test_another_encoder_of_the_same_weights_finds_them(
    recipe_of, plugins, store, tmp_path
):
    first = build_encoder(recipe_of())
    value = value_of(first, store)
    first.save(tmp_path / "e")

    other = Encoder.load(tmp_path / "e", {"use": "toy"}, plugins)
    same_store = VectorCache(store.root)
    assert value_of(other, same_store) == value
    assert passes(other) == 0


def test_vectors_are_exactly_those_that_were_encoded(store, calls):
    cold = kept(store, TEXTS)
    assert calls == [["one", "two and three", "", "a longer sentence"]]

    same_store = VectorCache(store.root)
    warm = kept(same_store, TEXTS)
    assert len(calls) == 1
    assert warm.dtype == np.float32
    np.testing.assert_array_equal(warm, cold)
    np.testing.assert_array_equal(warm[0], warm[3])

    generator = np.random.default_rng(1)
    expected = generator.standard_normal((4, 3), "f8").astype("f4")
    np.testing.assert_array_equal(warm[[0, 1, 2, 4]], expected)


def test_a_list_with_another_text_is_encoded_whole(store, calls):
    # A vector depends in its last bits on what it is encoded with.
    kept(store, ["a", "b"])
    mixed = kept(store, ["b", "c"])
    assert calls == [["a", "b"], ["b", "c"]]

    again = kept(store, ["b", "c"])
    np.testing.assert_array_equal(mixed, again)
    assert len(calls) == 2


def test_long_lists_go_a_window_at_a_time(store, calls, monkeypatch):
    monkeypatch.setattr(vectors, "WINDOW", 2)
    long = kept(store, ["a", "b", "c", "d"])
    assert calls == [["a", "b"], ["c", "d"]]
    more = kept(store, ["a", "b", "c", "d", "e"])
    assert calls[2:] == [["e"]]
    np.testing.assert_array_equal(more[:4], long)


def test_no_texts_are_no_rows(encoder, store):
    assert kept(store, []).shape == (0, 3)
    assert segments(store) == []


def test_progress_reaches_the_end_with_and_without_a_forward_pass(encoder, store):
    parts = []

    def progress(*part):
        parts.append(part)

    for _ in range(2):
        parts.clear()
        encoder.evaluate(Gap(), "e", progress=progress, store=store)
        assert parts[-1] == ("encode", 2, 2)


@pytest.mark.parametrize("wrong", [None, ["nested"]])
def test_a_text_that_cannot_be_encoded_is_named_by_its_row(wrong, encoder, store):
    texts = ("a", "a", wrong)
    evaluator = Sum((texts,))
    messages = []
    for used in (None, store):
        with pytest.raises(Exception, match="text 2 ") as caught:
            value_of(encoder, used, evaluator)
        messages.append(str(caught.value))

    assert messages[0] == messages[1]


def test_the_second_encoder_of_a_pair_has_vectors_of_its_own(recipe_of, store):
    recipe = recipe_of(TOWERS)
    zh = build_encoder(recipe, "zh")
    en = build_encoder(recipe, "en")
    evaluator = Across(right="abc")
    expected = zh.evaluate(evaluator, "zh", ("en", en))
    assert expected.primary < 0

    for _ in range(2):
        evaluation = zh.evaluate(evaluator, "zh", ("en", en), store=store)
        assert evaluation.primary == expected.primary

    assert (store.taken, store.encoded) == (2, 2)
    assert len(segments(store)) == 2


# --- what never shares -------------------------------------------------------------------------------------


def altered(encoder, **changes):
    recipe = attrs.evolve(encoder.recipe, **changes)
    return attrs.evolve(encoder, recipe=recipe)


def with_quoting_prompt(encoder, **changes):
    prompt = attrs.evolve(QUOTED, **changes)
    return altered(encoder, prompt=prompt)


def normalizing(encoder):
    head = attrs.evolve(encoder.recipe.head, normalize=True)
    return altered(encoder, head=head)


def with_another_tokenizer(encoder):
    tokenizer = CharacterTokenizer(fingerprint="others")
    backbone = attrs.evolve(encoder.backbone, tokenizer=tokenizer)
    return attrs.evolve(encoder, backbone=backbone)


@attrs.frozen
class Other(Average):
    name: ClassVar[str] = "other"


@attrs.frozen
class Scaled(Average):
    by: float = 1.0


CHANGES: dict[str, Callable[[Encoder], Encoder]] = {
    "prompt": with_quoting_prompt,
    "text rules": lambda e: with_quoting_prompt(e, normalizer="prompt-eol"),
    "demonstration": lambda e: with_quoting_prompt(
        e, demonstration=Demonstration("a", "b")
    ),
    "another demonstration": lambda e: with_quoting_prompt(
        e, demonstration=Demonstration("a", "c")
    ),
    "pooler": lambda e: altered(e, pooler=Other()),
    "field of the pooler": lambda e: altered(e, pooler=Scaled(2.0)),
    "another field of the pooler": lambda e: altered(e, pooler=Scaled(3.0)),
    "head": normalizing,
    "max_length": lambda e: altered(e, max_length=15),
    "tokenizer": with_another_tokenizer,
    "token budget": lambda e: attrs.evolve(e, engine=Engine(65)),
}


def test_no_two_encoders_that_differ_share_a_space(encoder, monkeypatch):
    spaces = {"the same": space_of(encoder)}
    for what, change in CHANGES.items():
        changed = change(encoder)
        spaces[what] = space_of(changed)

    with monkeypatch.context() as patch:
        for fact, value in (("precision", "bf16"), ("device", "another")):
            described = {**encoder.engine.describe(), fact: value}
            patch.setattr(Engine, "describe", lambda _, described=described: described)
            spaces[fact] = space_of(encoder)

    with monkeypatch.context() as patch:
        patch.setattr("sentbed.tools.code_of_package", lambda module: "edited")
        spaces["code"] = space_of(encoder)

    assert space_of(encoder) == spaces["the same"]

    encoder.backbone.embedding[3, 2] += 1e-6
    spaces["weights"] = space_of(encoder)
    different_spaces = set(spaces.values())
    assert len(different_spaces) == len(spaces) == 16


def space_of(encoder):
    space = fingerprint_of(encoder)
    assert space is not None
    return space


POOLER = """
import attrs
from toy_plugin import Average

@attrs.frozen
class Edited(Average):
    name = "edited"
"""


def test_code_that_is_edited_during_a_run_is_that_of_the_beginning(
    encoder, put, recipe_of, monkeypatch, tmp_path
):
    put("edited_pooler/__init__.py", POOLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    pooler = importlib.import_module("edited_pooler").Edited()
    encoder = altered(encoder, pooler=pooler)
    recipe = attrs.evolve(recipe_of(), encoders={"encoder": encoder.recipe})
    vector_store(SimpleNamespace(recipe=recipe), print)

    put("edited_pooler/__init__.py", f"{POOLER}# edited\n")
    during_the_run = space_of(encoder)
    code_of_package.cache_clear()  # as in the next run
    assert space_of(encoder) != during_the_run


def test_weights_that_have_changed_are_seen_by_the_next_evaluation(encoder, store):
    first = value_of(encoder, store)

    encoder.backbone.embedding[:] += 1
    second = value_of(encoder, store)
    without = value_of(encoder, None)
    assert second == without != first

    encoder.backbone.embedding[:] -= 1
    assert store.taken == 0


@pytest.mark.parametrize("part", ["placed", "tokenizer"])
def test_a_part_that_cannot_tell_its_weights_is_never_cached(
    part, encoder, store, monkeypatch
):
    if part == "placed":
        monkeypatch.delattr(Placed, "fingerprint")
    else:
        monkeypatch.setattr(encoder.backbone.tokenizer, "fingerprint", None)
    assert fingerprint_of(encoder) is None

    expected = value_of(encoder, None)
    for _ in range(2):
        assert value_of(encoder, store) == expected

    assert (store.taken, store.encoded) == (0, 12)
    assert segments(store) == []


# --- damage, full disks, size ------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"no array", b"cut"])
def test_a_damaged_file_is_encoded_and_written_again(content, store, calls):
    kept(store, ["a", "b"])
    (path,) = segments(store)
    if content == b"cut":
        content = path.read_bytes()[:-2]
    path.write_bytes(content)
    again = kept(store, ["a", "b"])
    assert len(calls) == 2
    np.testing.assert_array_equal(kept(store, ["a", "b"]), again)
    assert len(calls) == 2


def test_vectors_are_read_where_their_last_use_cannot_be_noted(store, monkeypatch):
    kept(store, ["a"])

    def refuse(path):
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(vectors.os, "utime", refuse)
    kept(store, ["a"])
    assert (store.taken, store.encoded) == (1, 1)


def test_what_a_killed_writer_left_is_no_vector_and_goes_like_one(store):
    kept(store, ["a"])
    (path,) = segments(store)
    left = path.with_name(f".{path.name}.0a1b2c3d.tmp")
    left.write_bytes(path.read_bytes())
    path.unlink()
    os.utime(left, (1, 1))

    kept(store, ["a"])
    assert (store.taken, store.encoded) == (0, 2)
    same_store = VectorCache(store.root, limit=2 * (HEADER_SIZE + 12))
    kept(same_store, ["b"])
    assert not left.exists()
    assert len(segments(same_store)) == 2


@pytest.mark.parametrize("fault", ["full", "a file is there"])
def test_where_nothing_can_be_written_the_evaluation_goes_on_and_says_so_once(
    fault, encoder, tmp_path, monkeypatch
):
    messages = []
    store = VectorCache(tmp_path / "vectors", say=messages.append)
    if fault == "full":

        def fail(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("sentbed._files.os.fsync", fail)
    else:
        store.root.touch()

    expected = value_of(encoder, None)
    for _ in range(2):
        assert value_of(encoder, store) == expected

    (message,) = messages
    consequence = "vectors are not kept for later evaluations: cannot write "
    assert message.startswith(consequence)
    says_full = "No space left" in message
    assert says_full == (fault == "full")
    assert message.endswith("with the environment variable `SENTBED_CACHE`")


def test_what_was_used_least_recently_goes_first(store):
    size = HEADER_SIZE + 12
    store.limit = 3 * size
    for number, text in enumerate("abc"):
        kept(store, [text])
        (path,) = [p for p in segments(store) if p.stat().st_mtime >= 1e9]
        os.utime(path, (number, number))

    kept(store, ["a"])
    assert (store.taken, store.encoded) == (1, 3)

    kept(store, ["d"])
    assert sum(p.stat().st_size for p in segments(store)) == 3 * size

    store.limit = 0
    taken = store.taken
    for text in "acd":
        kept(store, [text])
    assert store.taken == taken + 3

    kept(store, ["b"])
    assert store.taken == taken + 3


def test_an_evaluation_larger_than_the_limit_works(encoder, store):
    expected = value_of(encoder, None)
    for limit in (0, 130, 300):
        store.limit = limit
        assert value_of(encoder, store) == expected

        size = sum(path.stat().st_size for path in segments(store))
        assert size <= limit


@pytest.mark.parametrize(
    ("value", "limit"), [("", 5e9), ("0.5", 5e8), ("0", 0), ("2", 2e9)]
)
def test_the_limit_is_that_of_the_environment(value, limit, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE_GB", value)
    assert VectorCache().limit == limit


@pytest.mark.parametrize("value", ["five", "-1", "nan", "inf"])
def test_a_limit_that_is_no_size_is_refused(value, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE_GB", value)
    message = f"`SENTBED_CACHE_GB` is '{value}', expected how many GB"
    with pytest.raises(RunError, match=message):
        VectorCache()


# --- many at once ------------------------------------------------------------------------------------------

WRITER = """
import sys
import numpy as np
from pathlib import Path
from sentbed_common import fingerprint_of
from sentbed_workbench.vector_cache import VectorCache

root, size, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = VectorCache(root, limit=size, say=print)
space = "w"

def vector(text):
    return np.full(8, hash(int(text)), np.float32)

def encode(texts):
    return np.stack([vector(text) for text in texts])

print("ready", flush=True)
input()
for number in np.random.default_rng(seed).integers(0, 40, 300).tolist():
    texts = [str(number * 100 + n) for n in range(20)]
    assert (store.encode(space, texts, encode, 8) == encode(texts)).all()
print(store.taken + store.encoded)
"""


@pytest.mark.slow
def test_processes_that_write_and_evict_at_once_never_read_what_is_not_theirs(tmp_path):
    size = 8000
    command = [sys.executable, "-c", WRITER, str(tmp_path / "vectors"), str(size)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = []
    for seed in range(3):
        process = subprocess.Popen([*command, str(seed)], **pipes)
        processes.append(process)

    # All begin when the last one has been started.
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()

    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, "6000\n")

    store = VectorCache(tmp_path / "vectors", limit=size)
    sizes = [state.st_size for _, state in store.segments()]
    assert sum(sizes) <= size


# --- runs --------------------------------------------------------------------------------------------------


def facts_of(directory):
    text = (directory / "manifest.json").read_text()
    manifest = json.loads(text)
    return manifest.get("cache")


def test_a_second_run_encodes_nothing_and_has_the_same_scores(
    recipe_of,
    plugins,
    tmp_path,
    monkeypatch,
):
    text = RECIPE.replace('use = "gap"', 'use = "gap"\nleft = "kept"')
    counts = []
    encode = Placed.encode

    def count(placed, batch):
        counts[-1] += 1
        return encode(placed, batch)

    monkeypatch.setattr(Placed, "encode", count)
    scores = []
    facts = []
    for number, cache in enumerate(("false", "true", "true")):
        recipe = recipe_of(text, f"run.cache={cache}")
        directory = tmp_path / str(number)
        counts.append(0)
        result = run(recipe, directory, plugins)
        scores.append(result.scores)
        facts.append(facts_of(directory))

    assert scores[0] == scores[1] == scores[2]
    # Whether the weights still give numbers is asked of the encoder itself.
    off, cold, warm = counts
    assert off == cold == warm + 2
    assert facts == [
        None,
        {"taken": 0, "encoded": 4},
        {"taken": 4, "encoded": 0},
    ]


def test_validation_and_watch_use_no_store(recipe_of, plugins, tmp_path):
    watch = "watch = [{ every = 2, with = { use = 'gap' } }]"
    text = RECIPE.replace("epochs = 2", f"epochs = 2\n{watch}")
    recipe = recipe_of(text)
    validate = Validate(2, Gap(development=True))
    stage = attrs.evolve(recipe.stage[0], validate=validate)
    recipe = attrs.evolve(recipe, stage=(stage,), evaluate=())

    run(recipe, tmp_path / "run", plugins)
    assert segments(VectorCache()) == []


# --- the command line --------------------------------------------------------------------------------------


def invoke(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.fixture
def saved(installed_toy, encoder, tmp_path):
    encoder.save(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_evaluate_uses_the_store_unless_told_not_to(saved):
    arguments = ("evaluate", saved, "--with", "gap", "--set", "runtime.use=toy")
    without = invoke(*arguments, "--no-cache")
    assert segments(VectorCache()) == []

    cold = invoke(*arguments)
    warm = invoke(*arguments)
    assert without.exit_code == 0
    assert without.output == cold.output == warm.output
    assert len(segments(VectorCache())) > 0


def test_info_says_place_size_and_limit_and_clear_removes_vectors_alone(monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE_GB", "2.5")
    store = VectorCache()
    kept(store, ["a"])
    foreign = store.root / "notes.txt"
    foreign.touch()

    info = invoke("cache", "info")
    assert info.output.splitlines() == [
        f"place    {store.root}",
        "size     0.000 GB",
        "limit    2.500 GB (SENTBED_CACHE_GB)",
    ]

    clear = invoke("cache", "clear")
    assert clear.exit_code == 0
    assert segments(store) == []
    assert foreign.exists()


def test_a_limit_that_is_no_size_ends_a_run_before_anything_is_built(
    recipe_of,
    plugins,
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("SENTBED_CACHE_GB", "much")
    with pytest.raises(RunError, match="SENTBED_CACHE_GB"):
        run(recipe_of(), tmp_path / "run", plugins)

    recipe = load_recipe(tmp_path / "recipe.toml", ["run.cache=false"], plugins)
    run(recipe, tmp_path / "other", plugins)
