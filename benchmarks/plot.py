"""Draws what benchmarks/throughput.py has measured.

python benchmarks/plot.py FIGURES.json OUT.svg
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Colours of the sizes, from Okabe and Ito's palette for colour-blind readers."""
STYLES: Mapping[str, Mapping[str, Any]] = {
    "ours": {"linestyle": "-", "marker": "o"},
    "theirs": {"linestyle": "--", "marker": "o", "markerfacecolor": "white"},
}
LABELS = {"ours": "sentbed", "theirs": "sentence-transformers"}


def draw(figures: Mapping[str, Any], path: Path) -> list[Path]:
    """Draw encoding into `path`, and training beside it as NAME-train; returns the files."""
    measured = [case for case in figures["cases"] if "ours" in case]
    written = []
    for what in dict.fromkeys(case["what"] for case in measured):
        target = path if what == "encode" else path.with_stem(f"{path.stem}-{what}")
        with matplotlib.rc_context(
            {"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "sentbed"}
        ):
            _figure([case for case in measured if case["what"] == what], what).savefig(
                target, dpi=150
            )
        written.append(target)
    return written


def fastest(cases: Sequence[Mapping[str, Any]], side: str) -> list[Mapping[str, Any]]:
    """Return of each length the case in which a side has the most texts a second, by length."""
    best: dict[int, Mapping[str, Any]] = {}
    for case in cases:
        best_case = best.get(case["length"])
        if (
            best_case is None
            or case[side]["texts_per_s"] > best_case[side]["texts_per_s"]
        ):
            best[case["length"]] = case
    return [best[length] for length in sorted(best)]


def _figure(cases: Sequence[Mapping[str, Any]], what: str) -> Figure:
    """Plot a column per family, and per precision a row of rates and a row of shares."""
    families, precisions, sizes = (
        list(dict.fromkeys(case[key] for case in cases))
        for key in ("family", "precision", "size")
    )
    colours = dict(zip(sizes, COLOURS * len(sizes), strict=False))
    figure = Figure(
        figsize=(3.4 * max(2, len(families)), 5.0 * len(precisions) + 1.2),
        layout="constrained",
    )
    panels = figure.subplots(
        2 * len(precisions), len(families), squeeze=False, sharex=True, sharey="row"
    )
    lengths = sorted({case["length"] for case in cases})
    for column, family in enumerate(families):
        for row, precision in enumerate(precisions):
            cases_of_panel = [
                c for c in cases if (c["family"], c["precision"]) == (family, precision)
            ]
            rates, shares = panels[2 * row][column], panels[2 * row + 1][column]
            for size in sizes:
                for side, style in STYLES.items():
                    best = fastest(
                        [case for case in cases_of_panel if case["size"] == size], side
                    )
                    x = [case["length"] for case in best]
                    rates.plot(
                        x,
                        [c[side]["texts_per_s"] for c in best],
                        color=colours[size],
                        **style,
                    )
                    share = [100 * case[side]["share_of_limit"] for case in best]
                    shares.plot(x, share, color=colours[size], **style)
            rates.set_yscale("log")
            rates.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            rates.yaxis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:,g}")
            )
            rates.set_title(f"{family}, {precision}")
            shares.axhline(100, color="0.6", linewidth=1)
            shares.set_ylim(bottom=0)
            for panel, label in (
                (rates, "texts a second"),
                (shares, "% of the measured limit"),
            ):
                panel.set_xscale("log", base=2)
                panel.set_xticks(
                    lengths, [str(length) for length in lengths], minor=False
                )
                panel.minorticks_off()
                panel.grid(alpha=0.3)
                panel.tick_params(labelbottom=True)
                panel.set_xlabel("tokens a text")
                if column == 0:
                    panel.set_ylabel(label)
    handles = [
        Line2D([], [], color=colours[size], marker="o", label=size) for size in sizes
    ]
    handles += [
        Line2D([], [], color="0.2", label=LABELS[side], **style)
        for side, style in STYLES.items()
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False
    )
    doing = {"encode": "Encoding", "train": "Training steps"}[what]
    figure.suptitle(f"{doing}, each at the batch size that is fastest")
    return figure


def main() -> None:
    """Draw a file of figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("figures", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    for path in draw(json.loads(options.figures.read_text("utf-8")), options.out):
        print(path)


if __name__ == "__main__":
    main()
