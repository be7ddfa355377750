"""Which cells figures draw."""

from __future__ import annotations

from sentbed_report.figures.cell_styles import (
    best_cells,
)


def test_the_cells_drawn_are_the_baseline_and_the_best():
    worth = {f"cell {i}": float(i) for i in range(20)}
    assert best_cells(worth, "cell 3", limit=3) == ("cell 3", "cell 18", "cell 19")
    assert best_cells({**worth, "bad": float("nan")}, None, limit=2) == (
        "cell 18",
        "cell 19",
    )
    assert len(best_cells(worth, None, limit=30)) == 20
