"""What needs a GPU: `make gpu-test`. Without one, each test says why it is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

# Read when cuBLAS is first used in this process.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def pytest_collection_modifyitems(items):
    """Skip here: a fixture would come after those that the tests ask for."""
    reason = None
    if not torch.backends.cuda.is_built():
        reason = (
            f"needs a GPU: this PyTorch ({torch.__version__}) is built without CUDA"
        )
    elif torch.cuda.device_count() == 0:
        reason = "needs a GPU: PyTorch sees none"
    for item in items:
        if reason is not None and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _same_torch_afterwards():
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    if torch.cuda.is_initialized():
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
