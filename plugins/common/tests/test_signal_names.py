from __future__ import annotations

import signal

import pytest
from sentbed_common import signal_name


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (63, "signal 63")]
)
def test_a_signal_without_a_name_is_called_by_its_number(number, name):
    assert signal_name(number) == name
