from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import sentbed_backbones


def test_the_entry_point_names_the_package() -> None:
    found = [
        point.value
        for point in entry_points(group="sentbed")
        if point.dist.name == "sentbed-backbones"
    ]
    assert found == ["sentbed_backbones"]


def test_the_hook_offers_the_backbones_by_name() -> None:
    assert list(sentbed_backbones.backbones()) == [
        "bert",
        "t5",
        "opt",
        "causal",
        "static",
    ]


def test_importing_and_checking_loads_no_heavy_library() -> None:
    code = (
        "import sys, sentbed_backbones\n"
        "from sentbed_backbones.bert import Bert\n"
        "assert list(sentbed_backbones.backbones()) == ['bert', 't5', 'opt', 'causal', 'static']\n"
        "list(Bert(model='.').check())\n"
        "list(Bert(model='some/model').check())\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'numpy', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
