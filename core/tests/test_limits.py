"""What another library raises becomes an error of ours; a run warns of a batch of all rows."""

from __future__ import annotations

import json

import pytest
from sentbed import DataError, ModelError
from sentbed.errors import foreign
from toy_plugin import RECIPE

pytestmark = pytest.mark.slow


class Panic(BaseException):
    """As a library in Rust raises."""


@pytest.mark.parametrize(
    "error",
    [
        AssertionError(),
        ZeroDivisionError("x\n y"),
        Panic("p"),
        MemoryError(),
        KeyError("k"),
    ],
)
def test_whatever_another_library_raises_becomes_our_error(error):
    with (
        pytest.raises(ModelError) as caught,
        foreign(ModelError, "`m` cannot be loaded", "help"),
    ):
        raise error
    assert caught.value.__cause__ is error
    assert str(caught.value).startswith(f"`m` cannot be loaded: {type(error).__name__}")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; help")


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), DataError("ours")]
)
def test_our_own_errors_and_an_interruption_pass(error):
    with pytest.raises(type(error)) as caught, foreign(ModelError, "x", "y"):
        raise error
    assert caught.value is error


def test_a_batch_of_all_rows_is_warned_of(tmp_path, run_recipe):
    run_recipe(name="0")
    run_recipe(RECIPE, "stage.0.batch_size=500", name="1")
    warned = [
        json.loads((tmp_path / f"{i}/report.json").read_text())["warnings"]
        for i in range(2)
    ]
    assert warned[0] == []
    (warning,) = warned[1]
    assert "fewer than its `batch_size` of 500: a batch is all rows" in warning
