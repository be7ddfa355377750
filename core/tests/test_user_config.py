from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from sentbed import PluginError
from sentbed._registry.user_config import Settings, config_file, fits, read_settings
from toy_fixtures import exactly


@pytest.fixture
def write(put, monkeypatch):
    """Write the user's configuration; returns its path."""

    def config(text):
        file = put("config.toml", text)
        monkeypatch.setenv("SENTBED_CONFIG", str(file))
        return file

    return config


def faults(file):
    """Return what is wrong with the configuration, without the file's name."""
    with pytest.raises(PluginError) as caught:
        read_settings()
    head, *lines = str(caught.value).splitlines()
    assert (
        head
        == f"{len(lines)} problem{'s' if len(lines) > 1 else ''} in the configuration:"
    )
    return [line.strip().replace(str(file), "FILE") for line in lines]


# --- where it is -------------------------------------------------------------------------------------------


def test_the_file_is_in_the_users_configuration_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("SENTBED_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_file() == tmp_path / "sentbed" / "config.toml"
    assert read_settings() == Settings(tmp_path / "sentbed" / "config.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(platformdirs, "PlatformDirs", MacOS)
    assert (
        config_file()
        == tmp_path / "home/Library/Application Support/sentbed/config.toml"
    )
    monkeypatch.setattr(platformdirs, "PlatformDirs", Unix)
    assert config_file() == tmp_path / "home" / ".config" / "sentbed" / "config.toml"
    (tmp_path / "home").write_text("no directory")
    assert read_settings().disable == {}


def test_a_user_without_a_home_has_no_configuration(monkeypatch):
    monkeypatch.delenv("SENTBED_CONFIG")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    # Some versions of platformdirs ask `os.path`, and some `Path`.
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert read_settings().disable == {}


def test_a_variable_names_another_file(write):
    file = write('[plugins]\ndisable = ["a"]\n')
    assert read_settings() == Settings(file, {"a": f"{file}:2"}, allowed_by=f"{file}:1")


def test_a_file_that_is_named_and_not_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CONFIG", str(tmp_path / "no.toml"))
    with pytest.raises(
        PluginError,
        match=exactly(
            f"`SENTBED_CONFIG` names `{tmp_path}/no.toml`, which does not exist; create it, or unset the variable"
        ),
    ):
        read_settings()


def test_a_directory_in_the_place_of_the_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CONFIG", str(tmp_path))
    with pytest.raises(
        PluginError,
        match=r"cannot be read: Is a directory; make it a file that you may read",
    ):
        read_settings()


# --- what it says ------------------------------------------------------------------------------------------


def test_every_name_knows_its_line(write):
    file = write(
        """[plugins]
disable = ["a",
           "b"]
allow = [
  "c",
]
prefer = { "pooler/mean" = "d" }
order = ["e"]
"""
    )
    assert read_settings() == Settings(
        file,
        {"a": f"{file}:2", "b": f"{file}:3"},
        {"c": f"{file}:5"},
        f"{file}:4",
        {"pooler/mean": ("d", f"{file}:7")},
        {"e": f"{file}:8"},
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[plugin]\ndisable = ["a"]\n',
            ["unknown key `plugin`. Did you mean `plugins`? @ FILE:1 plugin"],
        ),
        (
            '[plugins]\n\ndisabel = ["a"]\nordre = []\n',
            [
                "unknown key `disabel`. Did you mean `disable`? @ FILE:3 plugins.disabel",
                "unknown key `ordre`. Did you mean `order`? @ FILE:4 plugins.ordre",
            ],
        ),
        (
            '[plugins]\ndisable = "a"\n',
            ["found 'a', expected an array: write `[\"a\"]` @ FILE:2 plugins.disable"],
        ),
        (
            "[plugins]\norder = [1]\n",
            ['found 1, expected a string: write `"1"` @ FILE:2 plugins.order.0'],
        ),
        (
            '[plugins.prefer]\n"poler/mean" = "a"\nmean = "b"\n',
            [
                'found `poler/mean`, expected `KIND/NAME`, such as `"pooler/mean"`. Did you mean `pooler`? '
                "@ FILE:2 plugins.prefer.poler/mean",
                'found `mean`, expected `KIND/NAME`, such as `"pooler/mean"`. @ FILE:3 plugins.prefer.mean',
            ],
        ),
        (
            b"[plugins]\ndisable = ['\xff']\n",
            ["found the byte 0xff, expected UTF-8; save the file as UTF-8 @ FILE:2"],
        ),
    ],
)
def test_a_fault_is_reported_with_its_line_and_a_suggestion(text, expected, write):
    assert faults(write(text)) == expected


def test_what_is_no_toml_is_reported_with_its_line(write):
    (fault,) = faults(write("[plugins]\ndisable = [\n"))
    assert fault.startswith("this is not TOML: ")
    assert "@ FILE:" in fault


# --- the environment ---------------------------------------------------------------------------------------


def test_variables_hold_in_the_place_of_the_files_lists(write, monkeypatch):
    write('[plugins]\ndisable = ["a"]\nallow = ["b"]\norder = ["c"]\n')
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", " d,e ,")
    monkeypatch.setenv("SENTBED_PLUGINS_ALLOW", "f")
    settings = read_settings()
    place = "the environment variable `SENTBED_PLUGINS_DISABLE`"
    assert settings.disable == {"d": place, "e": place}
    assert list(settings.allow or ()) == ["f"]
    assert settings.allowed_by == "the environment variable `SENTBED_PLUGINS_ALLOW`"
    assert list(settings.order) == ["c"]


def test_an_empty_variable_takes_the_files_list_out(write, monkeypatch):
    write('[plugins]\ndisable = ["a"]\nallow = ["b"]\n')
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "")
    monkeypatch.setenv("SENTBED_PLUGINS_ALLOW", "")
    settings = read_settings()
    assert (dict(settings.disable), settings.allow) == ({}, None)


# --- who is meant ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("my-dist", True),
        ("My_Dist", True),
        ("point", True),
        ("my.dist:point", True),
        ("my-dist:other", False),
        ("other:point", False),
        ("Point", False),
        ("my", False),
        ("", False),
    ],
)
def test_a_plugin_goes_by_its_name_its_distribution_or_both(name, meant):
    assert fits(name, "my-dist", "point") is meant


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (Settings(Path("f")), None),
        (Settings(Path("f"), {"other": "f:1"}), None),
        (Settings(Path("f"), {"my-dist": "f:1"}), "disabled by f:1; take it out there"),
        (Settings(Path("f"), allow={"point": "f:1"}, allowed_by="f:1"), None),
        (
            Settings(Path("f"), allow={}, allowed_by="f:1"),
            "disabled, since f:1 does not allow it; add `my-dist` there",
        ),
    ],
)
def test_a_plugin_that_is_not_to_be_loaded_is_told_why(settings, reason):
    assert settings.refusal("my-dist", "point") == reason


def test_core_needs_no_permission_and_can_be_disabled():
    assert Settings(Path("f"), allow={}).refusal("sentbed", "console") is None
    assert (
        Settings(Path("f"), {"console": "f:1"}).refusal("sentbed", "console")
        is not None
    )


def test_tests_do_not_read_the_users_configuration():
    assert os.environ["SENTBED_CONFIG"] == os.devnull
    assert read_settings() == Settings(Path(os.devnull))
