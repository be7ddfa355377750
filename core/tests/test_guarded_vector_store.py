"""A vector store that fails costs what it keeps, and not the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentbed import hookimpl, run
from sentbed._recipe.recipe import Recipe
from sentbed._registry.registry import Plugins
from sentbed._run.guarded_vector_store import GuardedVectorStore
from sentbed.protocols import VectorStore
from toy_plugin import RECIPE

Encode = Callable[[Sequence[str]], Any]


class Store(VectorStore):
    """Keeps nothing, and fails in one of its methods."""

    taken = 0
    encoded = 0

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in

    def space(self, encoder: Any) -> str:
        if self.fails_in == "space":
            raise ValueError("no space")
        return "space"

    def encode(
        self,
        space: Any,
        texts: Sequence[str],
        encode: Encode,
        width: int,
        progress: Any = None,
    ) -> Any:
        if self.fails_in == "encode":
            raise OSError(28, "No space left on device")
        self.encoded += len(texts)
        return encode(texts)


@pytest.mark.parametrize("fails_in", ["hook", "space", "encode"])
def test_a_run_goes_on_without_a_store_that_fails(
    fails_in: str,
    recipe_of: Callable[..., Recipe],
    plugins: Plugins,
    tmp_path: Path,
) -> None:
    expected = run(recipe_of(RECIPE), tmp_path / "plain", plugins)
    warnings: list[str] = []

    class Faulty:
        @hookimpl
        def vector_store(self) -> VectorStore:
            if fails_in == "hook":
                raise KeyError("index")
            return Store(fails_in)

        @hookimpl
        def warned(self, message: str) -> None:
            warnings.append(message)

    plugins.manager.register(Faulty())
    result = run(recipe_of(RECIPE), tmp_path / "out", plugins)
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


def test_it_counts_as_the_store_and_raises_what_the_encoder_raises() -> None:
    warnings: list[str] = []
    guarded = GuardedVectorStore(Store(), warnings.append)
    vectors = guarded.encode("space", ["a", "b"], lambda texts: np.ones((2, 3)), 3)
    assert vectors.shape == (2, 3)
    assert guarded.encoded == 2

    def without_memory(texts: Sequence[str]) -> Any:
        raise MemoryError

    with pytest.raises(MemoryError):
        guarded.encode("space", ["a"], without_memory, 3)
    assert warnings == []
