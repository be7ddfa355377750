"""Figures as files: their size, fonts and colours, whatever matplotlib is set to."""

from __future__ import annotations

import re
import struct

import attrs
import matplotlib
import pytest
from matplotlib.colors import to_hex
from sentbed.errors import RunError
from sentbed_report.figures import plot as plot_module
from sentbed_report.figures.colours import theme_colours
from sentbed_report.figures.figure_files import write_figure
from sentbed_report.figures.learning_curves import learning_curves
from sentbed_report.figures.study_figures import KINDS, study_figures
from sentbed_report.study.build_summary_tables import summarise
from toy_study import study

LETTER = "\u1d81"
"""A letter that DejaVu Sans lacks."""


@pytest.fixture(scope="module")
def plot():
    """Learning curves: six lines with a legend."""
    return learning_curves(study())[0]


def test_a_pdf_has_its_size_and_its_fonts(plot, tmp_path):
    write_figure(plot.figure(3.3, 2.0), tmp_path / "a.pdf", "Validation <1>")
    content = (tmp_path / "a.pdf").read_bytes()
    assert b"/MediaBox [ 0 0 237.6 144 ]" in content
    assert b"/FontFile2" in content, "TrueType fonts are embedded"
    assert b"/Type3" not in content
    assert b"Validation <1>" in content
    assert b"CreationDate" not in content


def test_an_svg_of_its_own_has_colours_and_shapes_of_letters(plot, tmp_path):
    write_figure(plot.figure(3.3, 2.0), tmp_path / "a.svg")
    content = (tmp_path / "a.svg").read_text()
    assert 'width="237.6pt" height="144pt"' in content
    colours = theme_colours("light")
    assert colours["c0"] in content
    assert "var(" not in content
    assert "#0101" not in content, "the stand-ins of a page's variables"
    assert "<text" not in content


@pytest.mark.parametrize(("dpi", "size"), [(100, (330, 200)), (300, (990, 600))])
def test_a_png_has_the_resolution_that_is_asked_for(plot, tmp_path, dpi, size):
    write_figure(plot.figure(3.3, 2.0), tmp_path / "a.png", dpi=dpi)
    assert struct.unpack(">II", (tmp_path / "a.png").read_bytes()[16:24]) == size


@pytest.mark.slow
def test_the_same_figure_is_the_same_file_whatever_matplotlib_is_set_to(plot, tmp_path):
    odd = {
        "font.size": 30,
        "lines.linewidth": 9,
        "savefig.bbox": "tight",
        "svg.fonttype": "none",
    }
    for suffix in ("pdf", "svg", "png"):
        write_figure(plot.figure(3.3), tmp_path / f"a.{suffix}")
        with matplotlib.rc_context(odd):
            write_figure(plot.figure(3.3), tmp_path / f"b.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (
            tmp_path / f"b.{suffix}"
        ).read_bytes()


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
@pytest.mark.sweep(1)
def test_letters_that_no_font_has_are_one_sentence(plot, tmp_path, suffix):
    assert write_figure(plot.figure(3.3), tmp_path / f"a.{suffix}") == ""
    figure = plot.figure(3.3)
    # Of a private area, which no font may have; the second one twice.
    figure.axes[0].set_xlabel("rate \U0010fff0\U0010fff1\U0010fff1")
    remark = write_figure(figure, tmp_path / f"b.{suffix}")
    assert remark.startswith(
        "no installed font has the characters '\\U0010fff0\\U0010fff1' of `"
    )
    assert "install one" in remark
    assert (tmp_path / f"b.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0.05, None), r"width is 0.05 inches, and must be 0.5 to 50"),
        ((100_000.0, None), r"width is 100000 inches"),
        ((3.3, 0.1), r"height is 0.1 inches"),
        ((float("nan"), None), r"width is nan inches"),
        (
            (0.5, 0.5),
            r"0.5 by 0.5 inches have no room for the figure's labels; make the figure larger",
        ),
    ],
)
def test_a_size_that_no_figure_can_have_is_refused(plot, size, message):
    with pytest.raises(RunError, match=message):
        plot.figure(*size)


@pytest.mark.parametrize("name", ["figure.eps", "figure"])
def test_a_format_that_is_none_is_refused_before_anything_is_written(
    plot, tmp_path, name
):
    with pytest.raises(RunError, match=r"use one of `\.pdf`, `\.svg`, `\.png`"):
        write_figure(plot.figure(3.3), tmp_path / name)
    assert [*tmp_path.iterdir()] == []


def test_without_a_height_it_has_the_proportions_of_the_page(plot):
    width, height = plot.figure(4.4).get_size_inches()
    assert height / width == pytest.approx(plot.height / plot.width)


def test_themes_are_those_of_the_page_and_light_is_on_white(plot):
    light, dark = theme_colours("light"), theme_colours("dark")
    assert (
        light.keys()
        == dark.keys()
        == {"fg", "muted", "line", "page", *(f"c{i}" for i in range(6))}
    )
    assert len({*light.values(), *dark.values()}) == 20
    figure = plot.figure(3.3, theme="dark")
    assert to_hex(figure.get_facecolor()) == dark["page"]
    assert to_hex(figure.axes[0].lines[1].get_color()) == dark["c1"]
    assert to_hex(plot.figure(3.3).get_facecolor()) == "#ffffff"


@pytest.mark.slow
def test_no_figure_of_a_study_has_a_stand_in_of_the_page(tmp_path):
    data = study(several=True, seeds=(1, 2))
    figures = study_figures(data, summarise(data, resamples=10))
    # The second figure of a kind, such as `effects-2`, is drawn by the same code.
    kinds = [name for name in figures if name in KINDS]
    assert len(kinds) > 5
    for name in kinds:
        plot = figures[name]
        write_figure(plot.figure(3.3), tmp_path / f"{name}.svg")
        assert "#0101" not in (tmp_path / f"{name}.svg").read_text()
        assert re.search(r"var\(--(fg|muted|line|c\d)\)", plot.element("f-")), (
            "the page keeps its variables"
        )


def test_a_legend_has_fewer_columns_where_the_figure_is_narrow(plot):
    def rows(width):
        (legend,) = plot.figure(width, 3.0).legends
        box = legend.get_window_extent()
        assert box.x1 <= width * 72 * (legend.figure.dpi / 72) + 1
        return len({round(text.get_window_extent().y0) for text in legend.get_texts()})

    assert (rows(6.2), rows(1.9)) == (3, 6)


def test_letters_beyond_the_font_are_taken_from_an_installed_one(
    plot, tmp_path, monkeypatch
):
    def paint(figure):
        figure.text(0, 0, LETTER)

    def warning_of(name):
        letter = attrs.evolve(plot, paint=paint)
        return write_figure(letter.figure(3.3), tmp_path / name)

    monkeypatch.setattr(plot_module, "_FALLBACKS", ())
    assert f"the characters {LETTER!r}" in warning_of("without.pdf")
    # A font of matplotlib's own, which has the letter.
    monkeypatch.setattr(plot_module, "_FALLBACKS", ("Not Installed", "STIXGeneral"))
    assert warning_of("with.pdf") == ""
    assert b"STIXGeneral" in (tmp_path / "with.pdf").read_bytes()
