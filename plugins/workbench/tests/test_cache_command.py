from __future__ import annotations

from click.testing import CliRunner
from sentbed_workbench.cache_command import cache


def test_weights_that_were_converted_from_pickles_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path))
    assert "weights  0.000 GB" in CliRunner().invoke(cache, ["info"]).output
    place = tmp_path / "converted-weights" / "abc"
    place.mkdir(parents=True)
    with (place / "model.safetensors").open("wb") as file:
        file.truncate(12_000_000)
    assert (
        "weights  0.012 GB converted from pickles"
        in CliRunner().invoke(cache, ["info"]).output
    )
