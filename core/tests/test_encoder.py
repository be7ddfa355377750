from __future__ import annotations

import hashlib
import json
import re
from typing import ClassVar

import attrs
import numpy as np
import pytest
from sentbed import (
    Encoder,
    ModelError,
    RecipeError,
    RunError,
    SentbedError,
    build_encoder,
)
from sentbed._document.structuring import unstructure
from sentbed._registry.registry import load_plugins
from sentbed.protocols import DrivesEncoder, Evaluation, Evaluator, Score
from sentbed_common import fingerprint_of
from sentbed_workbench.vector_cache import VectorCache
from toy_plugin import (
    RECIPE,
    TOWERS,
    Across,
    Average,
    Gap,
    Placed,
    Toy,
    Words,
    assert_same_vectors,
)

TOY = {"use": "toy"}
TEXTS = ["one", "two and three", "", "one"]
HEADS = ["", "projection = 3", "normalize = true", "projection = 3, normalize = true"]


def encoder_with(recipe_of, head=""):
    return build_encoder(
        recipe_of(RECIPE.replace("pooler", f"head = {{ {head} }}\npooler"))
    )


@pytest.fixture
def encoder(recipe_of):
    return build_encoder(recipe_of())


@pytest.fixture
def saved(encoder, tmp_path):
    """The directory that `encoder` is saved in."""
    encoder.save(tmp_path / "e")
    return tmp_path / "e"


@pytest.mark.parametrize("head", HEADS)
def test_a_loaded_encoder_gives_the_vectors_of_the_saved_one(
    head, recipe_of, tmp_path, load_encoder
):
    encoder = encoder_with(recipe_of, head)
    encoder.backbone.embedding[:] += 1  # what training would have changed
    encoder.save(tmp_path / "e")
    loaded = load_encoder(tmp_path / "e")
    assert_same_vectors(loaded, encoder, TEXTS)
    assert loaded.recipe == encoder.recipe
    assert loaded.width == encoder.width == (3 if "projection" in head else 4)


def test_vectors_are_float32_one_row_a_text_in_order(encoder):
    vectors = encoder.encode(TEXTS)
    assert (vectors.dtype, vectors.shape) == (np.float32, (4, 4))
    np.testing.assert_array_equal(vectors[0], vectors[3])
    np.testing.assert_allclose(
        vectors[1], encoder.encode(["two and three"])[0], rtol=1e-6
    )
    assert not np.allclose(vectors[0], vectors[1])
    assert encoder.encode([]).shape == (0, 4)


def test_saving_again_replaces_the_directory_whole(encoder, saved, tmp_path):
    (saved / "stale").touch()
    encoder.save(saved)
    assert sorted(p.name for p in saved.iterdir()) == [
        "backbone",
        "encoder.toml",
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e", "recipe.toml"]


def test_the_runtime_may_be_a_component_its_table_or_its_name(saved, plugins):
    assert Encoder.load(saved, "toy", plugins).engine.token_budget == Toy().token_budget
    assert Encoder.load(saved, Toy(token_budget=5), plugins).engine.token_budget == 5
    table = {"use": "toy", "token_budget": 6}
    assert Encoder.load(str(saved), table, plugins).engine.token_budget == 6


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one sentence", "takes a list of texts, found one string; put it in a list"),
        (["fine", None], "text 1 is None, expected a string"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(encoder, texts, message):
    with pytest.raises(SentbedError, match=re.escape(message)):
        encoder.encode(texts)


def test_the_max_length_of_a_call_is_at_most_the_positions(encoder):
    assert encoder.encode(TEXTS, max_length=64).shape == (4, 4)
    with pytest.raises(SentbedError, match="`max_length` is 1; give at least 2 tokens"):
        encoder.encode(TEXTS, max_length=1)
    with pytest.raises(ModelError, match="`max_length` is 65; the backbone has posit"):
        encoder.encode(TEXTS, max_length=65)


def test_a_max_length_beyond_the_positions_is_refused(recipe_of):
    recipe = recipe_of(RECIPE.replace("max_length = 16", "max_length = 65"))
    # A note behind the message says which backbone that is.
    message = "`max_length` is 65; the backbone has positions for 64 tokens, set `max_length` to 64 or less\n"
    with pytest.raises(ModelError, match=rf"\A{message}"):
        build_encoder(recipe)


def test_a_directory_without_an_encoder_is_refused(tmp_path, load_encoder):
    with pytest.raises(ModelError, match="name the directory of an encoder"):
        load_encoder(tmp_path)


def test_an_encoder_without_its_plugin_names_the_component(saved, toy_points):
    bare = load_plugins(point for point in toy_points if point.name != "toy")
    with pytest.raises(RecipeError) as caught:
        Encoder.load(saved, TOY, bare)
    shown = [(p.path, p.file) for p in caught.value.problems]
    file = str(saved / "encoder.toml")
    assert shown == [("backbone.use", file), ("pooler.use", file)]


@pytest.mark.parametrize(
    ("runtime", "path", "message"),
    [
        (None, "runtime.use", "`pip install sentbed-hardware`"),
        ({"use": "tpu"}, "runtime.use", "`pip install sentbed-tpu`"),
        ({"use": "toys"}, "runtime.use", "Did you mean `toy`?"),
        ({"use": "toy", "precision": "fp8"}, "runtime.precision", "found 'fp8'"),
        ({"precision": "fp32"}, "runtime", "the runtime has no `use`"),
    ],
)
def test_a_wrong_runtime_is_a_problem(saved, runtime, path, message, plugins):
    with pytest.raises(RecipeError) as caught:
        Encoder.load(saved, runtime, plugins)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message


def test_saving_never_replaces_what_is_no_encoder(encoder, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years")
    (tmp_path / "file").write_text("kept")
    for name in ("precious", "file"):
        with pytest.raises(RunError, match="holds something that is not an encoder"):
            encoder.save(tmp_path / name)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years"
    assert (tmp_path / "file").read_text() == "kept"


def test_an_encoder_of_another_schema_is_refused(saved):
    file = saved / "encoder.toml"
    file.write_text(file.read_text().replace("schema = 1", "schema = 99"))
    with pytest.raises(
        ModelError, match="has `schema = 99`, this version of sentbed reads 1"
    ):
        Encoder.load(saved)


# --- another length, into an array, two encoders -----------------------------------------------------------


def test_max_length_may_be_given_for_one_call(encoder):
    long, cut = encoder.encode(["abcdef"], max_length=4), encoder.encode(["abc"])
    np.testing.assert_array_equal(long, cut)
    assert not np.allclose(encoder.encode(["abcdef"]), cut)
    assert encoder.recipe.max_length == 16


@pytest.mark.parametrize(("normalize", "seen"), [(True, "<cats.>"), (False, "<cats>")])
def test_text_rules_may_be_left_out_for_one_call(normalize, seen, recipe_of):
    encoder = prompted(recipe_of, 'template = "<{text}>", normalizer = "prompt-eol"')
    encoder.backbone.tokenizer.seen.clear()
    encoder.encode(["cats"], normalize=normalize)
    assert encoder.backbone.tokenizer.seen == [seen]


def two(recipe_of):
    recipe = recipe_of(TOWERS, "encoders.en.max_length=9")
    return build_encoder(recipe, "zh"), build_encoder(recipe, "en")


def test_a_second_encoder_encodes_the_second_sentence_and_is_in_the_protocol(recipe_of):
    zh, en = two(recipe_of)
    (score,) = zh.evaluate(Across(), "zh", ("en", en)).scores
    assert score.value == -float(
        np.linalg.norm(zh.encode(["abc"]) - en.encode(["nop"]))
    )
    assert (score.encoder, score.evaluator) == ("zh", "across")
    assert score.protocol == {
        "encoder": {**zh.protocol(), "second": {"encoder": "en", **en.protocol()}},
        "evaluator": {"id": "across", "split": "dev"},
    }
    assert score.protocol["encoder"]["second"]["max_length"] == 9


def test_without_a_second_encoder_the_first_encodes_both(recipe_of):
    zh, _ = two(recipe_of)
    (score,) = zh.evaluate(Across(), "zh").scores
    assert score.value == -float(
        np.linalg.norm(zh.encode(["abc"]) - zh.encode(["nop"]))
    )
    assert "second" not in score.protocol["encoder"]


def test_without_plugins_those_that_are_installed_say_whose_an_evaluator_is(
    encoder, installed_toy
):
    assert encoder.evaluate(Gap(), "e").scores[0].plugin == "toy 1.0"
    (score,) = encoder.evaluate(Timed(), "e").scores
    assert score.plugin == ""


@attrs.frozen
class Timed(Evaluator):
    """Encodes the same texts twice, cut at four tokens."""

    name: ClassVar[str] = "timed"

    def prepare(self):
        return DrivesEncoder(self._time)

    def _time(self, encoder):
        texts, encode = ["abcdefgh", "nop"], encoder.unwrapped.encode
        vectors = encode(texts, max_length=4)
        np.testing.assert_array_equal(encode(texts, max_length=4), vectors)
        score = Score("t", "m", float(vectors[0, 0]), dict(encoder.machine))
        return Evaluation((score,), 0.0)


def test_an_evaluator_that_measures_time_has_every_vector_computed(encoder, tmp_path):
    store, reports = VectorCache(tmp_path), []
    encoder.evaluate(
        Timed(), "e", store=store, progress=lambda *what: reports.append(what)
    )
    before = len(encoder.placed.batches)
    (score,) = encoder.evaluate(
        Timed(), "e", store=store, progress=lambda *what: reports.append(what)
    ).scores
    assert len(encoder.placed.batches) == 2 * before > 0
    assert (store.encoded, store.taken, reports) == (0, 0, [])
    assert score.value == encoder.encode(["abcdefgh"], max_length=4)[0, 0]
    assert score.value != encoder.encode(["abcdefgh"])[0, 0]
    assert encoder.engine.describe().items() <= score.evaluator_protocol.items()


# --- prompt and protocol -----------------------------------------------------------------------------------


def prompted(recipe_of, prompt, *overrides):
    text = RECIPE.replace("[[stage]]", f"prompt = {{ {prompt} }}\n\n[[stage]]")
    return build_encoder(recipe_of(text, *overrides))


def test_every_text_is_encoded_in_its_prompt(recipe_of, encoder):
    prompting = prompted(
        recipe_of, 'template = "<<{text}>>", normalizer = "prompt-eol"'
    )
    prompting.backbone.tokenizer.seen.clear()
    vectors = prompting.encode(['a "dog"?', "cats", ""])
    texts = ["<<a 'dog'.>>", "<<cats.>>", "<<>>"]
    assert prompting.backbone.tokenizer.seen == texts
    expected = encoder.encode(texts)
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)


def test_a_plugin_may_bring_a_prompt(recipe_of, encoder, load_encoder, tmp_path):
    prompting = prompted(recipe_of, 'use = "quoted", capitals = true')
    expected = encoder.encode(['"A DOG"'])
    np.testing.assert_array_equal(prompting.encode(["a dog"]), expected)
    described = {"template": '"{text}"', "normalizer": "capitals"}
    assert prompting.protocol()["prompt"] == described
    prompting.save(tmp_path / "e")
    loaded = load_encoder(tmp_path / "e")
    assert_same_vectors(loaded, prompting, ["a dog"])
    assert fingerprint_of(prompting) != fingerprint_of(encoder)


def test_a_prompt_longer_than_the_positions_of_the_backbone_is_refused(recipe_of):
    # The start token and 38 characters of the template leave 25 of the 64 positions.
    fits = prompted(recipe_of, 'template = "prompt-eol"', "encoder.max_length=25")
    assert fits.encode(["x" * 30]).shape == (1, 4)
    message = "`max_length` is 26, and the template around a sentence has 39; .* set `max_length` to 25 or less"
    with pytest.raises(ModelError, match=message):
        prompted(recipe_of, 'template = "prompt-eol"', "encoder.max_length=26")


def test_every_score_says_how_text_became_a_vector(recipe_of, encoder):
    prompt = prompted(recipe_of, 'template = "prompt"')
    how = {
        "precision": "fp64",
        "pooler": {"train": "average", "test": "average"},
        "max_length": 16,
    }
    template = {"template": 'This sentence : "{text}" means', "normalizer": "none"}
    assert encoder.protocol() == how
    assert prompt.protocol() == how | {"prompt": template}
    (score,) = prompt.evaluate(Gap(), "e").scores
    assert score.protocol == {
        "encoder": how | {"prompt": template},
        "evaluator": {"id": "gap", "target": 0.0},
    }
    assert (score.encoder, score.evaluator) == ("e", "gap")


def test_what_the_engine_says_of_its_vectors_is_in_every_scores_protocol(
    encoder, monkeypatch
):
    before, cached = encoder.protocol(), fingerprint_of(encoder)
    calibration = {"int8": {"texts": "ab12"}}
    monkeypatch.setattr(Placed, "protocol", calibration)
    (score,) = encoder.evaluate(Gap(), "e").scores
    assert score.protocol["encoder"] == before | calibration
    # Vectors of another calibration are not taken from the cache.
    assert cached is not None
    assert fingerprint_of(encoder) != cached


def test_an_encoder_is_not_built_on_a_runtime_that_it_does_not_fit(
    recipe_of, plugins, tmp_path, monkeypatch, load_encoder
):
    recipe = recipe_of(RECIPE)
    build_encoder(recipe).save(tmp_path / "e")
    monkeypatch.setattr(
        Toy, "misfits", lambda *parts: iter(["it has no graph of that; take another"])
    )
    monkeypatch.setattr(Toy, "build", None)
    with pytest.raises(ModelError, match="it has no graph of that; take another"):
        load_encoder(tmp_path / "e")
    with pytest.raises(RecipeError, match="it has no graph of that; take another"):
        Encoder.of(unstructure(recipe.encoders["encoder"]), TOY, plugins)


def test_a_pooler_may_compute_something_else_at_test_time(encoder):
    @attrs.frozen
    class Trained(Average):
        name: ClassVar[str] = "average-mlp"
        at_test = "average"

    encoder.recipe = attrs.evolve(encoder.recipe, pooler=Trained())
    assert encoder.protocol()["pooler"] == {"train": "average-mlp", "test": "average"}


def test_a_saved_encoder_does_not_need_the_file_of_its_template(
    recipe_of, put, tmp_path, load_encoder
):
    file = put("templates.txt", "*sent_0*\n<_*sent_0*>\n")
    encoder = prompted(recipe_of, 'file = "templates.txt", line = 2')
    file.write_text("*sent_0*\n*sent_0*_is_another\n")
    encoder.save(tmp_path / "e")
    file.unlink()
    loaded = load_encoder(tmp_path / "e")
    for each in (encoder, loaded):
        assert each.protocol()["prompt"]["template"] == "< {text}>"
    assert_same_vectors(loaded, encoder, ["cat"])


# --- transforms that are fitted ----------------------------------------------------------------------------

CENTRE = 'normalize = true, transform = { use = "centre", data = { use = "words", rows = 5 } }'


def fitted(recipe_of, head=CENTRE):
    """Return an encoder before its transform is fitted, and what it is to give for `TEXTS` afterwards."""
    encoder = encoder_with(recipe_of, head)
    bare = encoder_with(
        recipe_of,
        head.split(", transform")[0].replace("normalize = true", "normalize = false"),
    )
    mean = bare.encode(list(Words(5).open().texts())).mean(axis=0)
    expected = (bare.encode(TEXTS) - mean)[:, :3]
    if "normalize = true" in head:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    return encoder, expected


@pytest.mark.parametrize(
    "head", [CENTRE, CENTRE.replace("true", "false"), f"projection = 5, {CENTRE}"]
)
def test_a_transform_is_fitted_to_what_stands_before_the_norm(head, recipe_of):
    encoder, expected = fitted(recipe_of, head)
    assert encoder.placed.transformed().width == (5 if "projection" in head else 4)
    assert encoder.fit_transform() is encoder
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, rtol=1e-5, atol=1e-6)
    assert encoder.width == 3


def test_a_transform_that_is_fitted_again_follows_the_weights(recipe_of):
    encoder, expected = fitted(recipe_of)
    encoder.fit_transform().backbone.embedding[:] += 1
    assert not np.allclose(encoder.encode(TEXTS), expected, atol=0.01)
    # What is added to all vectors is in the mean, too.
    np.testing.assert_allclose(
        encoder.fit_transform().encode(TEXTS), expected, rtol=1e-4, atol=1e-5
    )


def test_a_fitted_transform_is_saved_and_its_data_is_not_needed_again(
    recipe_of, tmp_path, load_encoder
):
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    head = CENTRE.replace(
        'use = "words", rows = 5', 'use = "lines", path = "lines.txt"'
    )
    encoder = encoder_with(recipe_of, head).fit_transform()
    encoder.save(tmp_path / "e")
    (tmp_path / "lines.txt").unlink()
    loaded = load_encoder(tmp_path / "e")
    assert_same_vectors(loaded, encoder, TEXTS)
    assert (loaded.protocol(), loaded.width) == (encoder.protocol(), 3)


def test_the_protocol_names_transform_and_texts(recipe_of):
    encoder, _ = fitted(recipe_of)
    encoder.fit_transform()
    texts = list(Words(5).open().texts())
    assert encoder.protocol()["transform"] == {
        "use": "centre",
        "dimensions": 3,
        "texts": 10,
        "data": hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
    }


def test_an_encoder_of_a_table_has_its_transform_fitted(plugins, recipe_of):
    head = {
        "normalize": True,
        "transform": {"use": "centre", "data": {"use": "words", "rows": 5}},
    }
    table = {
        "backbone": {"use": "characters", "width": 4},
        "pooler": {"use": "average"},
        "max_length": 16,
    }
    encoder = Encoder.of({**table, "head": head}, TOY, plugins)
    np.testing.assert_allclose(
        encoder.encode(TEXTS), fitted(recipe_of)[1], rtol=1e-5, atol=1e-6
    )
