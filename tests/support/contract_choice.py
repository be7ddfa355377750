"""The rules of the engines' contract that tests choose among all cases."""

from __future__ import annotations

CPU = {"use": "cpu", "threads": 1}
TPU = {"use": "tpu", "platform": "cpu", "precision": "fp32"}
EACH = [("backbone", "loss"), ("pooler",)]


def first_of_each(names):
    """Return the checks in which a rule meets a backbone, pooler, loss or optimiser for the first time.

    Steps and states are those of the optimiser whichever pooler and loss give the gradient, which `gradients`
    tries with each, unless the loss remembers something.
    """
    remembers = {
        name.split("/")[3] for name in names if name.startswith("momentum-and-queue/")
    }
    seen = set()
    chosen = set()
    for name in names:
        rule, *parts = name.split("/")
        if rule in ("steps", "state") and parts[2] not in remembers:
            del parts[1:3]
        met = {(rule, part) for part in parts}
        if not met or met - seen:
            chosen.add(name)
        seen |= met
    return chosen
