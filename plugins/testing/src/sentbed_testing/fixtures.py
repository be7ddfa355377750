"""Pytest fixtures for the tests of a plugin.

Load them in `conftest.py` with `pytest_plugins = ["sentbed_testing.fixtures"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sentbed import Encoder
from sentbed.protocols import TokenStates
from sentbed.tools import EncoderRecipe, misfits

from sentbed_testing import random_token_states
from sentbed_testing.component_under_test import installed
from sentbed_testing.sentences import SENTENCES

BACKBONES = ("bert", "t5", "opt", "causal", "static")
"""Backbones of an encoder, the first that suits its pooler."""


@pytest.fixture
def sentences() -> tuple[str, ...]:
    """English sentences of 2 to 19 words."""
    return SENTENCES


@pytest.fixture
def token_states() -> Callable[..., TokenStates]:
    """Return a function that draws random token states: `token_states(lengths, side="left", needs={"layers"})`.

    The states of a sentence do not depend on the side of its padding. Padding holds large random numbers. The
    arguments are those of `random_token_states.draw_states`.
    """
    pytest.importorskip("torch", reason="token states need PyTorch")
    return random_token_states.draw_states


@pytest.fixture
def tiny_encoder() -> Callable[..., Encoder]:
    """Return a function that builds a tiny random encoder: `tiny_encoder(pooler=MyPooler())`.

    The function also takes a `backbone`, a `prompt` and a `max_length`. If no backbone or pooler is given, it
    chooses an installed one. It skips the test if nothing suitable is installed. The test fails if a given
    backbone and the pooler or the prompt cannot be combined.
    """
    return _tiny_encoder


def _tiny_encoder(
    *,
    backbone: Any = None,
    pooler: Any = None,
    prompt: Any = None,
    max_length: int = 32,
) -> Encoder:
    plugins = installed()
    _require_installed("runtime", "cpu")
    if pooler is None:
        _require_installed("pooler", "mean")
        pooler = plugins.load("pooler", "mean")()

    candidates = [backbone]
    if backbone is None:
        candidates = []
        for name in BACKBONES:
            if name in plugins.names("backbone"):
                cls = plugins.load("backbone", name)
                candidates.append(cls(init="random", vocab_size=512))

    problems = []
    for candidate in candidates:
        recipe = EncoderRecipe(candidate, pooler, max_length=max_length, prompt=prompt)
        problems = list(misfits(recipe))
        if not problems:
            engine = plugins.load("runtime", "cpu")().build()
            engine.seed(0)
            return Encoder.build(recipe, engine, lambda: SENTENCES)

    if backbone is not None:
        reasons = [message for _, message in problems]
        pytest.fail("; ".join(reasons))
    pytest.skip("no installed backbone suits the pooler: install `sentbed-backbones`")


def _require_installed(kind: str, name: str) -> None:
    """Skip the test if a component is not installed."""
    if name not in installed().names(kind):
        pytest.skip(f"the {kind} `{name}` is not installed")
