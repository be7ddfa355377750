"""Peak memory of loading an encoder and of its first vectors, in times of its weights in fp32.

    python benchmarks/memory.py [--size base] [--precision fp32 bf16] [--json FILE]

A BERT of the given size with random weights is saved, and loaded in processes of its own. What counts is the
peak of resident memory beyond what the process held after the same imports: of loading, and of encoding a
batch after it. The target is 1.1 for loading. It reads `/proc`, since the peak that `getrusage` tells may be
that of the process which started this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import native_precisions, parser_of, write_figures
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe
from sentbed_backbones.bert import Bert
from sentbed_hardware.cpu import Cpu
from sentbed_poolers.mean import Mean

TEXTS = [
    "A sentence of some words.",
    "Another one, which is a little longer than the first.",
]
SIZES = ["tiny", "mini", "small", "medium", "base", "large"]
CHILD = """
import json, sys
from pathlib import Path
import transformers.models.bert.modeling_bert
import sentbed_hardware._torch.engine, sentbed_backbones._torch.loading, sentbed_backbones._torch.bert
from sentbed import Encoder

def memory(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

directory, precision, *texts = sys.argv[1:]
before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # from here on, VmHWM is the peak
encoder = Encoder.load(directory, {"use": "cpu", "precision": precision})
loaded = memory("VmHWM")
encoder.encode(texts)
weights = sum(one.numel() * 4 for one in encoder.placed.module.parameters())
print(json.dumps({"weights": weights, "load": loaded - before, "encode": memory("VmHWM") - before}))
"""


def measured(directory: Path, precision: str) -> dict[str, Any]:
    """Return the bytes of the weights in fp32, and the peaks of loading and of encoding after it."""
    command = [sys.executable, "-c", CHILD, str(directory), precision, *TEXTS]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    peaks: dict[str, Any] = json.loads(done.stdout)
    return peaks


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument(
        "--precision", nargs="+", default=native_precisions(), choices=["fp32", "bf16"]
    )
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as place:
        recipe = EncoderRecipe(Bert(init="random", size=options.size), Mean())
        Encoder.build(recipe, Cpu().build(), lambda: TEXTS).save(
            Path(place) / "encoder"
        )
        print(f"{'precision':<10}{'weights, MB':>12}{'load':>8}{'encode':>8}")
        for precision in options.precision:
            peaks = measured(Path(place) / "encoder", precision)
            figures[precision] = peaks
            load, encode = (
                peaks[part] / peaks["weights"] for part in ("load", "encode")
            )
            print(
                f"{precision:<10}{peaks['weights'] / 1e6:>12.0f}{load:>8.2f}{encode:>8.2f}"
            )
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
