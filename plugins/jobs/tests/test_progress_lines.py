from __future__ import annotations

from sentbed_jobs.progress_lines import EVERY, ProgressLines


def test_a_line_now_and_then_says_what_is_done_and_what_is_left():
    now, printed = 100.0, []
    lines = ProgressLines("encode", 4000, printed.append, clock=lambda: now)
    lines.advance(500)
    assert printed == []
    now += EVERY
    lines.advance(500)
    assert printed == ["encode: 1,000 of 4,000, 0:00:15, about 0:00:45 left"]
    now += EVERY / 2
    lines.advance(1000)
    assert len(printed) == 1
    now += EVERY
    lines.advance(1000)
    assert printed[1:] == ["encode: 3,000 of 4,000, 0:00:38, about 0:00:12 left"]


def test_nothing_is_said_before_anything_is_done():
    now, printed = 0.0, []
    lines = ProgressLines("encode", 10, printed.append, clock=lambda: now)
    now = 2 * EVERY
    lines.advance(0)
    assert printed == []
