"""Memory that an encoder has needed: of the device that it runs on, and of the process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import attrs
from sentbed import RunError
from sentbed.protocols import DrivesEncoder, Evaluation, Evaluator, Score, TextEncoder


@attrs.frozen
class Memory(Evaluator):
    """Memory in GiB that a run has needed until its evaluation, that of training included.

    `device-peak` is the most that PyTorch has allocated on all GPUs of the process, `device-held` what it
    holds there now: after training, the weights and the gradients and moments that are still kept. A
    processor has no device memory: the two are left out there, and the remaining score says so.
    `process-peak` is the largest resident set of the process in the machine's memory. Of several processes,
    the first one is measured. Put it last in `[[evaluate]]`, so that the other evaluations are included.

    QLoRA (Dettmers et al., 2023) compares fine-tuning by the first of them.

    `primary` is the first score.
    """

    name: ClassVar[str] = "memory"

    def prepare(self) -> DrivesEncoder:
        """Return an evaluation that looks at the encoder's device; it encodes nothing."""
        return DrivesEncoder(self._evaluate, tuple)

    def _evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Measure.

        Raises:
            RunError: if neither the device nor the system reports how much memory was used.
        """
        scores = tuple(self._scores(encoder))
        if not scores:
            raise RunError(
                f"`{self.name}` finds no memory to measure: the device `{encoder.device}` has none of its "
                "own, and this system does not report that of a process; take the evaluator out"
            )
        return Evaluation(scores, primary=scores[0].value)

    def _scores(self, encoder: TextEncoder) -> Iterator[Score]:
        protocol: dict[str, Any] = {
            "id": self.name,
            "unit": "GiB",
            "machine": dict(encoder.machine),
        }
        note = ""
        if encoder.device.startswith("cuda"):
            from sentbed_evaluators._torch import device_memory

            memory = device_memory.measure()
            device_protocol = {**protocol, "devices": memory.devices}
            for metric, value in (
                ("device-peak", memory.peak),
                ("device-held", memory.allocated),
            ):
                yield Score("memory", metric, value, device_protocol, direction="lower")
        else:
            note = f"the device `{encoder.device}` has no memory of its own: there is no `device-peak`"
        if (peak := _process_peak()) is not None:
            yield Score(
                "memory", "process-peak", peak, protocol, direction="lower", note=note
            )


def _process_peak() -> float | None:
    """Return the largest resident set of this process in GiB; None if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux KiB.
    gib = 2**30 if sys.platform == "darwin" else 2**20
    return float(peak / gib)
