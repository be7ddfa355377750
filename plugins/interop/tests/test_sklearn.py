from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sentbed import Encoder, ModelError, RecipeError

pytest.importorskip("sklearn", reason="needs the extra `sklearn`")
pytest.importorskip("pandas", reason="columns of texts are those of pandas")

import pandas as pd
from sentbed_interop.sklearn import SentbedVectorizer
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

pytestmark = pytest.mark.slow

TEXTS = ["The cat sleeps.", "A dog barks at two small birds.", "", "Rain falls."]


def expected(directory, texts):
    return Encoder.load(directory).encode(texts)


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "column",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        lambda texts: pd.Series(texts, index=[4, 3, 2, 1]),
        iter,
    ],
    ids=["list", "tuple", "array", "series", "labelled", "iterator"],
)
def test_texts_become_the_encoders_vectors(column, tiny_bert):
    vectors = SentbedVectorizer(tiny_bert).fit_transform(column(TEXTS))
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected(tiny_bert, TEXTS))


def test_nothing_has_to_be_fitted(tiny_bert):
    assert SentbedVectorizer(tiny_bert).transform(TEXTS).shape == (4, 48)
    assert not get_tags(SentbedVectorizer()).requires_fit


def test_no_text_gives_no_row(tiny_bert):
    assert SentbedVectorizer(tiny_bert).transform([]).shape == (0, 48)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one", "found one value; put it in a list"),
        (np.array("one"), "found one value; put it in a list"),
        ([["a"], ["b"]], r"text 0 is \['a'\], expected a string"),
        (np.array([["a"]]), "found 2 dimensions; name one column"),
        (pd.DataFrame({"text": TEXTS}), "found 2 dimensions; name one column"),
        (["a", None], "text 1 is None, expected a string"),
    ],
)
def test_what_is_no_text_is_refused(texts, message, tiny_bert):
    for call in (
        SentbedVectorizer(tiny_bert).transform,
        SentbedVectorizer(tiny_bert).fit,
    ):
        with pytest.raises(ValueError, match=message):
            call(texts)


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "texts", [{"a": "The cat."}, {"a"}, frozenset("a"), None, 3], ids=repr
)
def test_what_has_no_order_of_texts_is_refused(texts, tiny_bert):
    for call in (
        SentbedVectorizer(tiny_bert).transform,
        SentbedVectorizer(tiny_bert).fit,
    ):
        with pytest.raises(
            TypeError,
            match=f"expected a sequence of texts, found {type(texts).__name__}; ",
        ):
            call(texts)


def test_a_missing_encoder_and_an_unknown_precision_are_found_when_fitting(
    tiny_bert, tmp_path
):
    with pytest.raises(ModelError, match="is not an encoder"):
        SentbedVectorizer(tmp_path).fit(TEXTS)
    with pytest.raises(RecipeError, match="choose one of `auto`, `bf16`"):
        SentbedVectorizer(tiny_bert, precision="bf61").fit(TEXTS)


@pytest.mark.instructions("bf16")
def test_the_precision_is_the_runtimes(tiny_bert):
    rough = SentbedVectorizer(tiny_bert, precision="bf16").transform(TEXTS)
    runtime = {"use": "cpu", "precision": "bf16"}
    np.testing.assert_array_equal(rough, Encoder.load(tiny_bert, runtime).encode(TEXTS))
    assert not np.array_equal(rough, expected(tiny_bert, TEXTS))


def test_columns_have_names_and_pandas_can_hold_them(tiny_bert):
    vectorizer = SentbedVectorizer(tiny_bert).set_output(transform="pandas")
    frame = vectorizer.fit_transform(pd.Series(TEXTS, index=list("abcd")))
    assert list(frame.columns) == list(vectorizer.get_feature_names_out())
    assert list(frame.columns)[::47] == ["sentbedvectorizer0", "sentbedvectorizer47"]
    assert list(frame.index) == list("abcd")
    np.testing.assert_array_equal(frame.to_numpy(), expected(tiny_bert, TEXTS))


def test_a_clone_and_a_pickle_leave_the_weights_out(tiny_bert):
    vectorizer = SentbedVectorizer(tiny_bert).fit(TEXTS)
    dumped = pickle.dumps(vectorizer)
    assert len(dumped) < 1000
    for other in (clone(vectorizer), pickle.loads(dumped)):
        np.testing.assert_array_equal(
            other.transform(TEXTS), vectorizer.transform(TEXTS)
        )


def test_another_encoder_that_is_set_is_the_one_that_encodes(tiny_bert, tiny_t5):
    vectorizer = SentbedVectorizer(tiny_bert).fit(TEXTS)
    vectorizer.set_params(encoder=tiny_t5)
    np.testing.assert_array_equal(vectorizer.transform(TEXTS), expected(tiny_t5, TEXTS))


def test_a_search_over_encoders_finds_the_one_that_tells_the_classes_apart(
    tiny_bert, make_encoder
):
    # Of two tokens, `[CLS]` and `[SEP]`, nothing is left of the text.
    blind = make_encoder(
        "blind",
        backbone={"use": "bert", "init": "random", "size": "tiny", "vocab_size": 800},
        pooler={"use": "mean"},
        max_length=2,
    )
    texts = [
        "The cat sleeps.",
        "A cat.",
        "The cat sits.",
        "Rain falls.",
        "Rain.",
        "Much rain falls.",
    ] * 2
    labels = [0, 0, 0, 1, 1, 1] * 2
    pipeline = make_pipeline(SentbedVectorizer(), LogisticRegression(C=100))
    search = GridSearchCV(
        pipeline, {"sentbedvectorizer__encoder": [str(blind), str(tiny_bert)]}, cv=2
    )
    search.fit(texts, labels)
    assert search.best_params_ == {"sentbedvectorizer__encoder": str(tiny_bert)}
    assert list(search.cv_results_["mean_test_score"]) == [0.5, 1.0]
    assert list(search.predict(["The cat.", "Rain."])) == [0, 1]


def test_what_scikit_learn_checks_of_a_transformer_of_texts(tiny_bert):
    with pytest.warns(SkipTestWarning, match="requires input"):
        results = check_estimator(SentbedVectorizer(str(tiny_bert)))
    assert {result["status"] for result in results} == {"passed"}
    assert results


class OfNumbers(SentbedVectorizer):
    """Rows of numbers as texts: scikit-learn's checks know no other input."""

    def fit(self, X, y=None):  # noqa: N803
        validate_data(self, X)
        return super().fit([], y)

    def transform(self, X):  # noqa: N803
        rows = validate_data(self, X, reset=False)
        return super().transform(
            [" ".join(f"{value:.3f}" for value in row) for row in rows]
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        tags.input_tags.two_d_array = True
        return tags


@pytest.mark.slow
def test_the_checks_of_a_transformer_of_numbers_pass_where_numbers_stand_for_texts(
    tiny_bert,
):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(OfNumbers(str(tiny_bert)), on_fail=None)
    failed = {
        r["check_name"]: repr(r["exception"])
        for r in results
        if r["status"] == "failed"
    }
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 25
