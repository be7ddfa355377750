"""Figures as files: their size, fonts and colours, whatever matplotlib is set to."""

from __future__ import annotations

import struct

import attrs
import matplotlib
import pytest
from matplotlib.colors import to_hex
from sentbed_report.figures import plot as plot_module
from sentbed_report.figures.colours import theme_colours
from sentbed_report.figures.figure_files import write_figure
from sentbed_report.figures.learning_curves import learning_curves
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
