"""A saved encoder of which a copy has lost the end of a file is refused."""

from __future__ import annotations

import pytest
from random_encoders import random_encoder
from sentbed import Encoder

TEXTS = ["one sentence", "two of them are more than one"]
TABLE = {
    "backbone": {"use": "bert", "init": "random", "size": "tiny"},
    "pooler": {"use": "mean"},
    "head": {"projection": 8},
    "max_length": 16,
}


@pytest.mark.parametrize(
    "name",
    [
        "backbone/config.json",
        "backbone/model.safetensors",
        "backbone/tokenizer.json",
        "modules.safetensors",
    ],
)
def test_an_encoder_with_a_file_that_is_cut_off_is_refused(name, tmp_path):
    random_encoder(TABLE, TEXTS * 20).save(tmp_path / "encoder")
    file = tmp_path / "encoder" / name
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(Exception, match="while loading the encoder in"):
        Encoder.load(tmp_path / "encoder")
