from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from sentbed._signals import Stop


@pytest.fixture
def default_handlers():
    before = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)
    }
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_at_once_where_there_is_no_patience(name, default_handlers):
    stop = Stop()
    with pytest.raises(KeyboardInterrupt, match=f"ended by {name}"), stop.listening():
        signal.raise_signal(getattr(signal, name))
    assert stop.asked is None


def test_a_signal_that_comes_twice_at_once_is_one(default_handlers):
    stop = Stop(lambda _: None)
    with stop.listening(), stop.patient():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked == "SIGTERM"


def test_the_first_signal_waits_for_what_is_being_done_and_the_second_does_not(
    default_handlers, monkeypatch
):
    monkeypatch.setattr("sentbed._signals.SAME_SIGNAL", 0.0)
    messages = []
    stop = Stop(messages.append)
    with stop.listening():
        with stop.patient():
            signal.raise_signal(signal.SIGTERM)
            assert stop.asked == "SIGTERM"
        assert messages == ["SIGTERM: ending after this step; once more to end at once"]
        with pytest.raises(KeyboardInterrupt), stop.patient():
            signal.raise_signal(signal.SIGTERM)


def test_handlers_are_put_back_and_an_ignored_signal_stays_ignored(default_handlers):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Stop().listening():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sentbed_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "sentbed", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sentbed, version ")


def test_a_stop_within_another_replaces_it_for_as_long(default_handlers):
    outer, inner = Stop(lambda _: None), Stop(lambda _: None)
    with outer.listening():
        with inner.listening(), inner.patient():
            signal.raise_signal(signal.SIGTERM)
        assert (inner.asked, outer.asked) == ("SIGTERM", None)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
