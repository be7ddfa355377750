"""A vector store that fails costs what it keeps, and not the run."""

from __future__ import annotations

import numpy as np
import pytest
from sentbed import hookimpl
from sentbed._run.guarded_vector_store import GuardedVectorStore
from sentbed.protocols import VectorStore
from toy_plugin import RECIPE


class Store(VectorStore):
    """Keeps nothing, and fails in one of its methods."""

    taken = 0
    encoded = 0

    def __init__(self, fails_in=""):
        self.fails_in = fails_in

    def space(self, encoder):
        if self.fails_in == "space":
            raise ValueError("no space")
        return "space"

    def encode(
        self,
        space,
        texts,
        encode,
        width,
        progress=None,
    ):
        if self.fails_in == "encode":
            raise OSError(28, "No space left on device")
        self.encoded += len(texts)
        return encode(texts)


@pytest.mark.parametrize("fails_in", ["hook", "space", "encode"])
def test_a_run_goes_on_without_a_store_that_fails(fails_in, plugins, run_recipe):
    expected = run_recipe(RECIPE, name="plain")
    warnings = []

    class Faulty:
        @hookimpl
        def vector_store(self):
            if fails_in == "hook":
                raise KeyError("index")
            return Store(fails_in)

        @hookimpl
        def warned(self, message):
            warnings.append(message)

    plugins.manager.register(Faulty())
    result = run_recipe(RECIPE)
    assert [score.value for score in result.scores] == [
        score.value for score in expected.scores
    ]
    (warning,) = [text for text in warnings if "vectors are computed" in text]
    causes = {
        "hook": "(KeyError: 'index')",
        "space": "(ValueError: no space)",
        "encode": "(OSError: [Errno 28] No space left on device)",
    }
    assert causes[fails_in] in warning


def test_it_counts_as_the_store_and_raises_what_the_encoder_raises():
    warnings = []
    guarded = GuardedVectorStore(Store(), warnings.append)
    vectors = guarded.encode("space", ["a", "b"], lambda texts: np.ones((2, 3)), 3)
    assert vectors.shape == (2, 3)
    assert guarded.encoded == 2

    def without_memory(texts):
        raise MemoryError

    with pytest.raises(MemoryError):
        guarded.encode("space", ["a"], without_memory, 3)
    assert warnings == []
