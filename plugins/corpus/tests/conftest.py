"""An encoder on disk, which is built once for all tests."""

from __future__ import annotations

import shutil

import pytest
import toy_plugin
from sentbed import build_encoder
from sentbed.tools import load_recipe
from toy_fixtures import write_distribution


@pytest.fixture(scope="session")
def toy_site(tmp_path_factory):
    """A directory of `sys.path` that has the toy plugin, for what is set up once for many tests."""
    site = tmp_path_factory.mktemp("corpus-site")
    write_distribution(site, "toy", {"toy": "toy_plugin"})
    return site


@pytest.fixture(scope="session")
def encoder_once(toy_site, tmp_path_factory):
    """An encoder, and the directory that it was saved in."""
    directory = tmp_path_factory.mktemp("encoder-once")
    recipe = directory / "recipe.toml"
    recipe.write_text(toy_plugin.RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(toy_site))
        built = build_encoder(load_recipe(recipe))
        built.save(directory / "encoder")
    return built, directory / "encoder"


@pytest.fixture
def encoder(encoder_once, installed_toy, tmp_path):
    """An encoder that is also on disk, in `encoder` of the test's directory."""
    built, directory = encoder_once
    shutil.copytree(directory, tmp_path / "encoder")
    return built
