"""Compiles whole training steps for a TPU that is not there, with XLA's TPU compiler (`libtpu`).

    make tpu-compile

For each backbone: a step of InfoNCE with a queue and a momentum encoder, weights replicated and sharded, for
the chips of `--topology`. A figure of XLA's, not a measurement: floating-point operations and temporary bytes
a chip.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from sentbed import Encoder, RuntimeUnavailableError
from sentbed.protocols import Head, Training
from sentbed.tools import EncoderRecipe, load_plugins

BACKBONES = (
    ("T5 encoder", "t5", "mean"),
    ("T5 encoder-decoder", "t5", "decoder"),
    ("BERT", "bert", "first"),
    ("OPT", "opt", "last"),
    ("LLaMA", "causal", "last"),
)
SENTENCES = (
    "the river is high after the rain",
    "two children count the boats",
    "nobody is at home",
)


def main() -> None:
    """Compile and print what XLA says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--topology", default="v5e:2x4")
    parser.add_argument("--size", default="tiny", help="of the backbones")
    parser.add_argument(
        "--lower",
        action="store_true",
        help="only lower to the TPU's dialect: needs no libtpu",
    )
    options = parser.parse_args()
    plugins = load_plugins()

    def part(kind: str, name: str, **fields: Any) -> Any:
        return plugins.find(kind, name).cls(**fields)

    runtime = part(
        "runtime", "tpu", platform="cpu", precision="bf16", lengths=(16,), devices=8
    )
    try:
        base: Any = runtime.build()
        from sentbed_tpu._jax.ahead_of_time import ahead, described, lower_step

        devices = (
            list(base.devices.layout.mesh.devices.flat)
            if options.lower
            else described(options.topology)
        )
    except RuntimeUnavailableError as error:
        sys.exit(f"error: {error}")
    print(
        f"{len(devices)} x {devices[0].device_kind}, {options.size}, bf16, batches of 16 tokens"
    )
    for title, backbone, pooler in BACKBONES:
        for parallel in ("ddp", "fsdp"):
            start = time.perf_counter()
            engine = ahead(
                base, devices, parallel == "fsdp", compiles=not options.lower
            )
            recipe = EncoderRecipe(
                part("backbone", backbone, init="random", size=options.size),
                part("pooler", pooler),
                Head(64),
            )
            encoder = Encoder.build(recipe, engine, lambda: SENTENCES)
            towers = dict.fromkeys(("anchor", "positive"), "encoder")
            training = Training(
                part("loss", "momentum", size=64, temperature=0.05),
                part("optimizer", "adamw", lr=1e-4),
                part("schedule", "constant"),
                total_steps=1,
                towers=towers,
            )
            trainer: Any = engine.trainer({"encoder": encoder.placed}, training)
            tokens = encoder.tokenizer().encode(SENTENCES * 8, 16)
            columns: dict[str, Any] = dict.fromkeys(towers, tokens)
            # By default the loss compares texts, by these.
            columns |= {f"{column}.id": np.arange(len(tokens)) for column in towers}
            functions = lower_step(trainer, columns)
            seconds = time.perf_counter() - start
            flop = sum(function.get("flop") or 0 for function in functions)
            temporary_bytes = max(
                function.get("temporary_bytes", 0) for function in functions
            )
            print(
                f"{title:<20}{parallel:<6}{len(functions):>3} functions {seconds:>6.1f} s "
                f"{flop / 1e9:>8.2f} GFLOP {temporary_bytes / 2**20:>8.1f} MiB"
            )


if __name__ == "__main__":
    main()
