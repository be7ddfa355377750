"""A folder of sentence-transformers may be a stranger's: nothing outside of it is read."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import ModelError
from sentbed_interop._torch.sentence_transformers_modules import read_modules
from sentbed_interop.export_and_import import export_encoder
from sentbed_interop.from_sentence_transformers import FromSentenceTransformers


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


@pytest.mark.parametrize(
    "name", ["config.json", "1_Pooling/config.json", "tokenizer.json", "sentbed/tokens"]
)
def test_a_link_out_of_the_folder_is_refused(name, tmp_path):
    source = write_folder(tmp_path / "folder")
    (tmp_path / "private").write_text("{}")
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).unlink(missing_ok=True)
    (source / name).symlink_to(tmp_path / "private")
    with pytest.raises(ModelError, match="is a link out of the folder"):
        read_modules(source)


def test_a_directory_that_is_a_link_out_of_the_folder_is_refused(
    tmp_path,
):
    source = write_folder(tmp_path / "folder")
    (source / "1_Pooling").rename(tmp_path / "theirs")
    (source / "1_Pooling").symlink_to(tmp_path / "theirs")
    with pytest.raises(ModelError, match="is a link out of the folder"):
        read_modules(source)


def test_a_pipe_in_the_folder_is_refused(tmp_path):
    source = write_folder(tmp_path / "folder")
    os.mkfifo(source / "1_Pooling" / "model.safetensors")
    with pytest.raises(ModelError, match="is a pipe or a device"):
        read_modules(source)


def test_a_link_in_a_circle_is_refused(tmp_path):
    source = write_folder(tmp_path / "folder")
    (source / "sentence_bert_config.json").unlink(missing_ok=True)
    (source / "sentence_bert_config.json").symlink_to("sentence_bert_config.json")
    with pytest.raises(
        ModelError,
        match=r"sentence_bert_config.json` (leads to no file|is a link out of)",
    ):
        read_modules(source)


def test_a_module_whose_path_no_file_can_have_is_refused(tmp_path):
    source = write_folder(tmp_path / "folder")
    entries = json.loads((source / "modules.json").read_text())
    entries[1]["path"] = "\0"
    (source / "modules.json").write_text(json.dumps(entries))
    with pytest.raises(ModelError, match="leads to no file"):
        read_modules(source)


def test_more_modules_than_any_folder_has_are_refused_in_a_short_sentence(
    tmp_path,
):
    source = write_folder(tmp_path / "folder")
    entries = json.loads((source / "modules.json").read_text())
    (source / "modules.json").write_text(json.dumps(entries * 10_000))
    with pytest.raises(
        ModelError, match=r"it has [0-9]0,000 modules, more than the 20 that are read"
    ) as error:
        read_modules(source)
    assert len(str(error.value)) < 500


def test_links_of_the_hub_cache_are_taken(tmp_path):
    source = write_folder(tmp_path / "models--a--b" / "snapshots" / "0123")
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir()
    for file in (
        source / "config.json",
        source / "1_Pooling" / "config.json",
        source / "modules.json",
    ):
        file.rename(blobs / file.parent.name)
        file.symlink_to(os.path.relpath(blobs / file.parent.name, file.parent))
        if file.name == "config.json" and file.parent == source:
            (blobs / "0123").rename(blobs / "config")
            file.unlink()
            file.symlink_to("../../blobs/config")
    assert read_modules(source).pooler == "first"


def test_only_the_tokenizer_of_an_exported_folder_is_copied(tiny_opt_prompt, tmp_path):
    folder = tmp_path / "folder"
    export_encoder(tiny_opt_prompt, folder, "sentence-transformers")
    (folder / "sentbed" / "deep").mkdir()
    (folder / "sentbed" / "deep" / "large").symlink_to("/usr")
    assert FromSentenceTransformers().read(folder).width > 0
    (folder / "sentbed" / "deep").rename(folder / "elsewhere")
    (folder / "sentbed" / "large").symlink_to("/usr")
    with pytest.raises(ModelError, match="is a link out of the folder"):
        FromSentenceTransformers().read(folder)
