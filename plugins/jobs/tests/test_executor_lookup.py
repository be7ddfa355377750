from __future__ import annotations

import importlib.util
from importlib.metadata import distribution

import pytest
from sentbed import RunError, RuntimeUnavailableError
from sentbed._registry.registry import load_plugins
from sentbed_jobs.executor_lookup import executor_of
from sentbed_jobs.local_pool import LocalPool


@pytest.fixture(scope="module")
def plugins():
    """The plugin of this distribution alone."""
    return load_plugins(
        distribution("sentbed-jobs").entry_points.select(group="sentbed")
    )


def test_options_that_are_left_out_are_those_of_one_worker_in_this_process(
    plugins,
):
    messages = []
    pool = executor_of(
        "local", {"workers": 1, "cpus": None, "gpus": None}, plugins, messages.append
    )
    assert pool == LocalPool(1, None, 0, say=messages.append)


def test_options_are_those_of_the_pool(plugins):
    pool = executor_of("local", {"workers": 3, "cpus": 2, "gpus": 1}, plugins, print)
    assert pool == LocalPool(3, 2, 1, say=print)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("locla", {}, r"the executor `locla`: .*Did you mean `local`"),
        ("local", {"address": "auto"}, r"the executor `local`: .*`address`"),
        ("local", {"workers": 0}, r"the executor `local`: .* >= 1: 0 @ workers"),
        ("ray", {"gpus": -1}, r"the executor `ray`: .* >= 0: -1 @ gpus"),
    ],
)
def test_what_no_executor_takes_is_an_error_that_names_it(
    name, options, message, plugins
):
    with pytest.raises(RunError, match=message):
        executor_of(name, options, plugins, print)


def test_an_executor_whose_package_is_missing_says_how_to_get_it(plugins, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        RuntimeUnavailableError, match=r"run `pip install 'sentbed-jobs\[ray\]'`"
    ):
        executor_of("ray", {}, plugins, print)
