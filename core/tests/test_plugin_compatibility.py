from __future__ import annotations

import pytest
from sentbed._registry.plugin_compatibility import API_NAME, requirements
from sentbed._registry.plugin_source_code import assigned_text


@pytest.mark.parametrize(
    ("value", "api"),
    [
        ("packed.plugin:thing", "1.0"),
        ("packed.inner", "1.2"),
        ("packed.inner.deep", "1.2"),
        ("packed.silent", "1.9"),
        ("packed", "1.9"),
    ],
)
def test_the_written_api_is_that_of_the_module_or_of_the_packages_around_it(
    value, api, put, tmp_path, monkeypatch
):
    for file, version in {
        "__init__": "1.9",
        "a_template": "9.0",
        "plugin": "1.0",
        "inner/__init__": "1.2",
        "inner/a_template": "9.1",
    }.items():
        put(
            f"packed/{file}.py",
            f"sentbed_api = '{version}'\nraise AssertionError('run')\n",
        )
    put("packed/silent.py", "")
    put("packed/inner/deep.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert assigned_text(value, API_NAME) == api


def test_in_a_namespace_the_written_api_is_that_of_the_plugins_own_module(
    put, tmp_path, monkeypatch
):
    put("space/one/plugin.py", "sentbed_api = '1.1'\n")
    put("space/a_neighbour/plugin.py", "sentbed_api = '9.9'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert assigned_text("space.one.plugin", API_NAME) == "1.1"


def test_requirements_are_those_of_this_machine(tmp_path, monkeypatch):
    information = tmp_path / "thing-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nRequires-Dist: attrs>=20\n"
        'Requires-Dist: winning; sys_platform == "never"\nRequires-Dist: jax==0.10.2; extra == "tpu"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [str(requirement) for requirement in requirements("thing")] == ["attrs>=20"]
    assert list(requirements("no-such-distribution")) == []
