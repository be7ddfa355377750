from __future__ import annotations

import re

from sentbed_report.tables.terminal import to_text


def test_text_stands_in_columns_with_the_best_starred(results):
    title, header, first, mean, *_ = to_text(results).splitlines()
    assert title == "toy: transfer (accuracy; p)"
    assert header.split() == ["pooler", "MR", "CR", "Avg"]
    assert first.startswith("first (baseline)  ")
    assert re.search(r" 81\.00\* ± 1\.41†, published 81\.05 ", mean)
    assert len(header) == len(first) == len(mean)
