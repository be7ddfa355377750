"""Texts that train the tokenizer of a random backbone."""

from __future__ import annotations

import sentbed


def test_without_a_stage_the_tokenizer_is_trained_on_the_evaluations(tmp_path):
    recipe = tmp_path / "random.toml"
    recipe.write_text(
        'schema = 1\nrun = { name = "random" }\nruntime = { use = "cpu" }\n'
        'encoder.backbone = { use = "bert", init = "random", size = "tiny" }\n'
        'encoder.pooler = { use = "mean" }\n'
        '[[evaluate]]\nuse = "sts"\npath = "pairs.tsv"\n'
    )
    pairs = "score\tsentence1\tsentence2\n5\tA zebra.\tThe zebra.\n1\tA zebra.\tRain.\n"
    (tmp_path / "pairs.tsv").write_text(pairs)
    tokenizer = sentbed.build_encoder(sentbed.load_recipe(recipe)).tokenizer()
    tokens = tokenizer.encode(["zebra"], 16)
    assert len(tokens.ids) == 3  # [CLS] zebra [SEP]
