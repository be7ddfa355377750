from __future__ import annotations

import pytest
from huggingface_hub.utils import httpx
from sentbed_common import hub_problem


@pytest.mark.parametrize(
    "error",
    [
        KeyError("siblings"),
        ValueError("bad json"),
        RuntimeError("cannot unpack"),
        PermissionError("no file"),
    ],
    ids=repr,
)
def test_an_error_that_is_none_of_a_connection_is_not_called_one(
    error,
):
    message = hub_problem(error, "model", "owner/name")
    assert "broke the connection" not in message
    assert f"{type(error).__name__}: " in message
    assert "neither an answer of the hub nor a broken connection" in message


@pytest.mark.parametrize(
    "error",
    [ConnectionResetError("reset"), TimeoutError("late"), httpx.ReadError("cut")],
    ids=repr,
)
def test_a_broken_connection_is_called_one(error):
    wrapped = RuntimeError("download failed")
    wrapped.__cause__ = error
    for caught in (error, wrapped):
        assert "does not answer, or broke the connection" in hub_problem(
            caught, "model", "owner/name"
        )
