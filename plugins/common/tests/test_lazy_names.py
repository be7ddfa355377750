from __future__ import annotations

from pathlib import Path

import sentbed_common


def test_no_lazy_name_is_that_of_a_module():
    names = dir(sentbed_common)
    assert len(names) > 10
    modules = {file.stem for file in Path(sentbed_common.__file__).parent.glob("*.py")}
    # A module that is imported becomes an attribute of its package, and would hide what it defines.
    assert modules.isdisjoint(names)
