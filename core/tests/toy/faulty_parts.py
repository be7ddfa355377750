"""Parts of every other kind, each with one fault by its name: a field `fault`, empty for none."""

from __future__ import annotations

import random
from typing import ClassVar

import attrs
from sentbed import hookimpl
from sentbed.protocols import (
    Dataset,
    DataSource,
    DrivesEncoder,
    Engine,
    Evaluation,
    Evaluator,
    Importer,
    Items,
    Optimizer,
    Prepared,
    Runtime,
    Schedule,
    Score,
    Texts,
    Tracker,
    Transform,
)

TEXTS = tuple(f"text {k}" for k in range(9))


@attrs.frozen
class Nine(DataSource):
    """Nine pairs."""

    name: ClassVar[str] = "nine"

    fault: str = ""
    """What is wrong with it."""

    @property
    def columns(self):
        """Anchor and positive."""
        return ("anchor",) if self.fault == "other columns" else ("anchor", "positive")

    def open(self):
        """Return them."""
        return NinePairs(self.fault)


@attrs.frozen(eq=False)
class NinePairs(Dataset):
    fault: str
    columns: ClassVar[tuple[str, ...]] = ("anchor", "positive")

    @property
    def fingerprint(self):
        return str(id(self)) if self.fault == "fingerprint of an address" else "nine"

    def __len__(self):
        return 9

    def rows(self, indices, epoch=0):
        fault = self.fault
        if fault == "sorted rows":
            indices = sorted(indices)
        if fault == "each row once":
            indices = list(dict.fromkeys(indices))
        if fault == "goes round":
            indices = [index % 9 for index in indices]
        more = {
            "changes with the epoch": lambda index: f" {epoch}",
            "changes with the call": lambda index: f" {random.random()}",
            "changes with the batch": lambda index: f" {len(indices)}",
        }.get(fault, lambda index: "")
        anchors = [TEXTS[index] for index in indices]
        if fault == "unsaid numbers":
            return {"anchor": anchors, "positive": [1.5] * len(indices)}
        return {
            "anchor": anchors,
            "positive": [f"{TEXTS[index]} again{more(index)}" for index in indices],
        }

    def texts(self, columns=None):
        if columns is None or "anchor" in columns:
            yield from TEXTS
        if self.fault != "one column of texts" and (
            columns is None or "positive" in columns
        ):
            yield from (f"{text} again" for text in TEXTS)


@attrs.frozen
class Size(Evaluator):
    """The mean size of a number of a vector."""

    name: ClassVar[str] = "size"

    fault: str = ""
    """What is wrong with it."""

    def prepare(self):
        """Prepare one list."""
        if self.fault == "an iterator":
            return DrivesEncoder(
                lambda encoder: self._score({"all": encoder.encode(iter(TEXTS))})
            )
        if self.fault == "one half":
            return self._score
        texts = Texts(
            [f"{text} {random.random()}" for text in TEXTS]
            if self.fault == "other texts"
            else TEXTS
        )
        if self.fault == "two sides":
            texts = Texts(TEXTS[:4], TEXTS[4:])
        item_texts = {"nine": [(text,) for text in TEXTS]}
        if self.fault == "texts of fewer items":
            item_texts["nine"].pop()
        if self.fault == "texts of no list":
            item_texts["nine"][-1] = ("of no list",)
        return Prepared(
            {"all": texts} | ({"more": texts} if self.fault == "one more" else {}),
            self._score,
            lambda: {} if self.fault == "other texts" else item_texts,
        )

    def _score(self, vectors_by_name):
        import numpy as np

        vectors = vectors_by_name["all"]
        sizes = np.abs(vectors).mean(axis=1).astype(np.float64)
        value = float(sizes.mean()) * 100
        if self.fault == "not finite":
            value = float("nan")
        if self.fault == "by chance":
            value += random.random()
        protocol = {} if self.fault == "no protocol" else {"id": "size"}
        scale = 10.0 if self.fault == "other items" else 100.0
        items = (
            None
            if self.fault in ("not finite", "by chance")
            else Items("mean", sizes, scale=scale)
        )
        if self.fault == "a score is no item":
            items = Items("mean", np.array([sizes.mean()]))
        if self.fault == "folds are no items":
            items = Items("mean", np.array([sizes.mean()] * 2))
        score = Score("nine", "size", value, protocol, items=items)
        return Evaluation((score, score) if self.fault == "twice" else (score,), 0.0)


@attrs.frozen
class Descent(Optimizer):
    """Plain descent with momentum."""

    name: ClassVar[str] = "descent"

    lr: float = 0.01
    """Learning rate, > 0."""
    fault: str = ""
    """What is wrong with it."""

    def build(self, parameters):
        """Return a `torch.optim.Optimizer`."""
        import torch

        fault = self.fault

        class Descending(torch.optim.SGD):
            calls = 0

            def step(self, closure=None):
                self.calls += 1
                with torch.no_grad():
                    for group in self.param_groups:
                        for value in group["params"]:
                            if fault == "ascends":
                                value.grad.neg_()
                            if fault == "decays apart":
                                value.mul_(0.999)
                            if fault == "counts apart":
                                value.grad.div_(self.calls)
                super().step(closure)

        tensors = [value for _, value in parameters]
        if fault == "forgets scalars":
            tensors = [value for value in tensors if value.ndim]
        rate = 0.02 if fault == "another rate" else self.lr
        return Descending(tensors, lr=rate, momentum=0.5)


@attrs.frozen
class Ramp(Schedule):
    """From 0 to 1."""

    name: ClassVar[str] = "ramp"

    top: float = 1.0
    """The last multiplier."""

    def factor(self, step, total_steps):
        """Return the multiplier."""
        return self.top * (step + 1) / total_steps


@attrs.frozen
class Shift(Transform):
    """Subtracts the mean."""

    name: ClassVar[str] = "shift"

    fault: str = ""
    """What is wrong with it."""

    def output_width(self, width):
        """Return the width."""
        return 0 if self.fault == "no width" else width

    def texts(self, width):
        """Return nine texts."""
        if self.fault == "drawn texts":
            return [str(random.random())]
        return [1, 2] if self.fault == "numbers" else list(TEXTS)

    def fit(self, vectors, backbone):
        """Return the mean and the identity."""
        import numpy as np

        width = vectors.shape[1]
        matrix = np.eye(width)
        if self.fault == "nothing":
            return None
        if self.fault == "narrow":
            matrix = matrix[:, 1:]
        if self.fault == "drawn":
            matrix = matrix * random.random()
        if self.fault == "writes":
            vectors -= vectors.mean(axis=0)
        if self.fault == "scales":
            with np.errstate(all="ignore"):
                matrix = matrix / vectors.std(axis=0)
        return vectors.mean(axis=0), matrix


@attrs.frozen
class Listener(Tracker):
    """Listens to a run."""

    name: ClassVar[str] = "listener"

    fault: str = ""
    """What is wrong with it."""

    def build(self):
        """Return what listens."""
        if self.fault == "one for all":
            return ONE
        return {"misspelt": Misspelt, "unmarked": Unmarked, "argument": Argument}.get(
            self.fault, Listening
        )()


class Listening:
    @hookimpl
    def step_finished(self, step):
        """Do nothing."""


class Misspelt(Listening):
    @hookimpl
    def stage_finnished(self, stage):
        """Do nothing."""


class Unmarked:
    def run_finished(self):
        """Do nothing."""


class Argument:
    @hookimpl
    def step_finished(self, number):
        """Do nothing."""


ONE = Listening()


@attrs.frozen
class Nowhere(Runtime):
    """Runs nothing."""

    name: ClassVar[str] = "nowhere"

    fault: str = ""
    """What is wrong with it."""

    @property
    def untrainable(self):
        if self.fault == "only encodes":
            return "`nowhere` only encodes; train with `toy`"
        return None

    def build(self):
        """Return an engine that does nothing."""
        methods = dict.fromkeys(("assemble", "trainer", "seed"), lambda *_: None)
        methods["describe"] = lambda _: (
            {} if self.fault == "no precision" else {"precision": "fp32"}
        )
        methods["counters"] = lambda _: {
            "device_memory_gib": "much" if self.fault == "words" else 0.0
        }
        if self.fault in ("no trainer", "only encodes"):
            del methods["trainer"]
        engine = type("Idle", (Engine,), methods)()
        engine.token_budget = 0 if self.fault == "no budget" else 64
        return engine


@attrs.frozen
class Anything(Importer):
    """Reads nothing."""

    name: ClassVar[str] = "anything"

    def read(self, source):
        """Raise."""
        raise NotImplementedError
