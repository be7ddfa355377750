"""Classes for libraries that are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "library", "name", "extra"),
    [
        ("sklearn", "sklearn", "scikit-learn", "sklearn"),
        ("langchain", "langchain_core", "langchain-core", "langchain"),
        ("llama_index", "llama_index", "llama-index-core", "llama-index"),
    ],
)
def test_a_missing_library_is_a_sentence(module, library, name, extra):
    hidden = f"import sys; sys.modules['{library}'] = None"
    code = f"{hidden}; import sentbed_interop.{module}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr.splitlines()[-1] == (
        f"ImportError: {name} is not installed; install it with `pip install 'sentbed-interop[{extra}]'`"
    )
