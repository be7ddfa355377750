"""The evaluator `memory`: how much memory a run has used, on its GPUs and in its process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import attrs
from sentbed import RunError
from sentbed.helpers import peak_memory
from sentbed.protocols import DrivesEncoder, Evaluation, Evaluator, Score, TextEncoder


@attrs.frozen
class Memory(Evaluator):
    """Memory in GiB that a run has used up to its evaluation, training included.

    `device-peak` is the peak of the memory that PyTorch has allocated on the GPUs of the process. `device-held`
    is the memory that is allocated there now: after a training, the weights, and the gradients and moments that
    have not been freed. On a CPU, there is no device memory: both scores are left out, and a note says so.
    `process-peak` is the largest resident set of the process in the machine's memory. If a run has several
    processes, the first one is measured. Put this evaluator last in `[[evaluate]]`, so that the memory of the
    other evaluations is included.

    QLoRA (Dettmers et al., 2023) compares methods of fine-tuning by `device-peak`.

    `primary` is the first score.
    """

    name: ClassVar[str] = "memory"

    def prepare(self) -> DrivesEncoder:
        """Return an evaluation that measures the memory; it encodes nothing."""
        return DrivesEncoder(self._evaluate, tuple)

    def _evaluate(self, encoder: TextEncoder) -> Evaluation:
        """Measure the memory used so far.

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
        """Yield the scores that this device and system can report."""
        protocol: dict[str, Any] = {
            "id": self.name,
            "unit": "GiB",
            "machine": dict(encoder.machine),
        }
        score = partial(Score, "memory", direction="lower")
        note = ""
        if encoder.device.startswith("cuda"):
            from sentbed_evaluators._torch import device_memory

            memory = device_memory.measure()
            device_protocol = {**protocol, "devices": memory.devices}
            yield score("device-peak", memory.peak, device_protocol)
            yield score("device-held", memory.allocated, device_protocol)
        else:
            note = f"the device `{encoder.device}` has no memory of its own: there is no `device-peak`"

        peak = peak_memory()
        if peak is not None:
            yield score("process-peak", peak / 2**30, protocol, note=note)
