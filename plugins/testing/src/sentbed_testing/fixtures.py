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
from sentbed_testing.engine_cases import BACKBONES, part
from sentbed_testing.sentences import SENTENCES


@pytest.fixture
def sentences() -> tuple[str, ...]:
    """English sentences of 2 to 20 words."""
    return SENTENCES


@pytest.fixture
def token_states() -> Callable[..., TokenStates]:
    """Return a function that draws states: `token_states(lengths, side="left", needs={"layers"})`.

    The states of a sentence do not depend on where its padding is; padding holds large random numbers.
    """
    pytest.importorskip("torch", reason="token states need PyTorch")
    return random_token_states.draw_states


@pytest.fixture
def tiny_encoder() -> Callable[..., Encoder]:
    """Return a function that builds a tiny random encoder: `tiny_encoder(pooler=MyPooler())`.

    It also takes a `backbone` and a `prompt`, and skips the test if the other parts are not installed.
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
    for kind, name in (("runtime", "cpu"), *([] if pooler else [("pooler", "mean")])):
        if name not in plugins.names(kind):
            pytest.skip(f"the {kind} `{name}` is not installed")
    pooler = pooler or plugins.find("pooler", "mean").cls()
    names = [
        name
        for name, table in BACKBONES.items()
        if table["use"] in plugins.names("backbone")
    ]
    candidates = (
        [backbone]
        if backbone
        else [part("backbone", BACKBONES[name], plugins) for name in names]
    )
    for candidate in candidates:
        recipe = EncoderRecipe(candidate, pooler, max_length=max_length, prompt=prompt)
        if not any(misfits(recipe, plugins)):
            engine = plugins.find("runtime", "cpu").cls().build()
            engine.seed(0)
            return Encoder.build(recipe, engine, lambda: SENTENCES)

    pytest.skip("no installed backbone suits the pooler: install `sentbed-backbones`")
