"""A folder of sentence-transformers may be a stranger's: nothing outside of it is read."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import ModelError
from sentbed_interop._torch.sentence_transformers_modules import read_modules


def write_folder(folder, transformer="", pooling="1_Pooling"):
    """Write the settings of a folder without weights."""
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_cls_token": True})
    )
    (folder / "config.json").write_text("{}")
    modules = [
        {"path": transformer, "type": "sentence_transformers.models.Transformer"},
        {"path": pooling, "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_modules_in_the_folder_are_read(tmp_path):
    assert read_modules(write_folder(tmp_path / "folder")).pooler == "first"


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    before=st.lists(st.sampled_from(["1_Pooling", ".", "x", ".."]), max_size=3),
    after=st.sampled_from(["theirs", "../theirs", "../../theirs"]),
    is_absolute=st.booleans(),
)
def test_a_module_outside_of_the_folder_is_refused(
    before, after, is_absolute, tmp_path
):
    shutil.copytree(
        write_folder(tmp_path / "folder") / "1_Pooling",
        tmp_path / "theirs",
        dirs_exist_ok=True,
    )
    path = "/".join([*before, "..", after])
    if is_absolute:
        path = str(tmp_path / "theirs")
    source = write_folder(tmp_path / "folder", pooling=path)
    with pytest.raises(
        ModelError, match="which is not in the folder; nothing outside it is read"
    ):
        read_modules(source)
