from __future__ import annotations

import pytest
from sentbed_backbones.quantised_checkpoints import METHODS, quantisation_problem


def problem(**settings):
    return quantisation_problem(
        {"model_type": "llama", "quantization_config": settings}
    )


@pytest.mark.parametrize(
    ("settings", "what", "repository"),
    [
        (
            {"quant_method": "gptq", "bits": 4},
            "by GPTQ (whole numbers)",
            "without `-GPTQ` or `-GPTQ-Int4`",
        ),
        (
            {"quant_method": "awq", "bits": 4},
            "by AWQ (whole numbers of 4 bits)",
            "without `-AWQ`",
        ),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
            },
            "by bitsandbytes (NF4 of 4 bits)",
            "without `-bnb-4bit`",
        ),
        (
            {"load_in_8bit": True},
            "by bitsandbytes (whole numbers of 8 bits)",
            "`-bnb-8bit`",
        ),
        (
            {"quant_method": "compressed-tensors"},
            "by compressed-tensors",
            "`-quantized.w4a16`",
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            "by fp8 in blocks",
            "`-BF16`",
        ),
        ({"quant_method": "fbgemm_fp8"}, "by FBGEMM (fp8)", "without `-FP8`"),
        ({"quant_method": "mxfp4"}, "by MXFP4 (fp4 in blocks)", "`-BF16`"),
        ({"quant_method": "hqq"}, "by HQQ", "without `-HQQ`"),
        ({"quant_method": "quanto"}, "by Quanto", "model card"),
        (
            {"quant_method": "tomorrow"},
            "by an unknown method ('tomorrow')",
            "model card",
        ),
        ({"bits": 4}, "by an unknown method (None)", "model card"),
    ],
)
def test_the_method_is_named_with_where_to_find_unquantised_weights(
    settings, what, repository
):
    sentence = problem(**settings)
    assert sentence is not None
    assert f"quantised {what}" in sentence
    assert repository in sentence
    assert 'with `quantization = "nf4"`' in sentence


def test_mlx_is_known_by_its_second_table():
    settings = {"group_size": 64, "bits": 4}
    sentence = quantisation_problem(
        {"quantization": settings, "quantization_config": settings}
    )
    assert sentence is not None
    assert "quantised by MLX" in sentence


def test_the_settings_may_stand_with_those_of_the_text_model():
    sentence = quantisation_problem(
        {"text_config": {"quantization_config": {"quant_method": "awq"}}}
    )
    assert sentence is not None
    assert "AWQ" in sentence


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"quantization_config": None},
        {"quantization_config": {}},
        {"text_config": {}},
        {"text_config": None},
        {
            "quantization_config": {
                "quant_method": "bitsandbytes",
                "load_in_4bit": False,
            }
        },
    ],
)
def test_weights_that_are_not_quantised_have_no_problem(config):
    assert quantisation_problem(config) is None


def test_every_method_of_transformers_is_known():
    from transformers.utils.quantization_config import QuantizationMethod

    methods = {method.value for method in QuantizationMethod}
    assert len(methods) > 20
    assert methods <= METHODS.keys()
