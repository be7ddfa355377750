from __future__ import annotations

import gc
import sys

import pytest
from sentbed_common import import_heavy


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that says whether garbage is collected while it is imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "heavy_one", raising=False)
    path = tmp_path / "heavy_one.py"
    path.write_text("import gc\ncollects = gc.isenabled()\n")
    return path


def test_garbage_is_not_collected_during_an_import_and_is_after_it(
    module,
):
    assert gc.isenabled()
    import_heavy(module.stem)
    assert sys.modules[module.stem].collects is False
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(module):
    gc.disable()
    try:
        import_heavy(module.stem)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_import_that_fails_does_so_with_the_collector_on(module):
    module.write_text("import a_module_that_is_not_there\n")
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        import_heavy(module.stem)

    assert gc.isenabled()
