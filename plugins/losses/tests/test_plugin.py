from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import sentbed_losses


def test_the_entry_point_names_the_package() -> None:
    found = [
        point.value
        for point in entry_points(group="sentbed")
        if point.dist.name == "sentbed-losses"
    ]
    assert found == ["sentbed_losses"]


def test_the_hook_offers_the_losses_by_name() -> None:
    assert list(sentbed_losses.losses()) == [
        "info-nce",
        "queue",
        "momentum",
        "classification",
        "nli-softmax",
        "cosent",
        "angle",
        "cosine-mse",
        "pearson",
        "matryoshka",
        "sum",
        "spread-out",
        "flops",
        "distill",
        "similarity-kl",
        "margin-mse",
        "gist",
        "mntp",
    ]


def test_calling_the_hook_loads_no_heavy_library_and_building_does() -> None:
    code = (
        "import sys, sentbed_losses\n"
        "from sentbed_testing import offered\n"
        "found = {loss.name: loss for loss in offered(sentbed_losses.losses())}\n"
        "plain = found.keys() - {'flops', 'matryoshka', 'sum'}\n"
        "built = [found[name]() for name in sorted(plain)]\n"
        "assert len(built) == 15\n"
        "built.append(found['matryoshka'](loss=found['sum'](losses=(built[0],)), dimensions=(4,)))\n"
        "heavy = {'torch', 'transformers', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "built[0].build(4)\n"
        "assert 'torch' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
