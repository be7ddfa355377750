"""Components without a torch module, each with one fault by its name: a field `fault`, empty for none."""

from __future__ import annotations

import random
from typing import ClassVar

import attrs
from sentbed import hookimpl
from sentbed.protocols import (
    Dataset,
    DataSource,
    DrivesEncoder,
    Evaluation,
    Evaluator,
    Intervention,
    Items,
    Optimizer,
    Prepared,
    Prompt,
    ResolvedPrompt,
    Schedule,
    Score,
    Similarity,
    Template,
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
        if self.fault == "other columns":
            return ("anchor",)
        return ("anchor", "positive")

    def open(self):
        """Return them."""
        return NinePairs(self.fault)


@attrs.frozen(eq=False)
class NinePairs(Dataset):
    fault: str
    columns: ClassVar[tuple[str, ...]] = ("anchor", "positive")

    @property
    def fingerprint(self):
        if self.fault == "fingerprint of an address":
            return str(id(self))
        return "nine"

    def __len__(self):
        return 9

    def rows(self, indices, epoch=0):
        fault = self.fault
        if fault == "sorted rows":
            indices = sorted(indices)
        if fault == "each row once":
            indices = list(dict.fromkeys(indices))
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

    def order(self, key, epoch):
        order = super().order(key, epoch)
        if self.fault == "drawn order":
            random.shuffle(order)
        if self.fault == "shorter second epoch":
            return order[epoch:]
        if self.fault == "order from 1":
            return order + 1
        return order

    def batches(self, batch_size, key, epoch):
        if self.fault == "larger batches":
            batch_size += 1
        if self.fault == "drawn batches":
            key = (random.getrandbits(32),)
        batches = super().batches(batch_size, key, epoch)
        if self.fault == "fewer batches later":
            return batches[epoch:]
        return batches


@attrs.frozen
class Said(Prompt):
    """A text between words."""

    name: ClassVar[str] = "said"

    fault: str = ""
    """What is wrong with it."""

    def resolve(self, default=None):
        """Return the template."""
        if self.fault == "a string":
            return "they say {text}"
        template = Template("they say ", ".")
        rules = {
            "unnamed rules": str.lower,
            "drawn rules": lambda text: f"{text} {random.random()}",
            "rules that return no text": str.split,
            "saved with other rules": str.upper,
        }
        name = "none"
        if self.fault in rules and self.fault != "unnamed rules":
            name = "said"
        return ResolvedPrompt(template, name, rules.get(self.fault, str))

    def for_task(self, task):
        """Return the prompt of a task."""
        if self.fault == "no prompt for a task":
            return None
        return self

    def self_contained(self):
        """Return the prompt to save."""
        if self.fault == "saved without its words":
            return Empty()
        if self.fault == "saved with other rules":
            return Said("rules that return no text")
        return self


@attrs.frozen
class Empty(Prompt):
    """A text alone."""

    name: ClassVar[str] = "empty"

    def resolve(self, default=None):
        """Return no template."""
        return ResolvedPrompt(Template("", ""))


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
        texts = Texts(TEXTS)
        if self.fault == "other texts":
            texts = Texts([f"{text} {random.random()}" for text in TEXTS])
        if self.fault == "two sides":
            texts = Texts(TEXTS[:4], TEXTS[4:])
        item_texts = {"nine": [(text,) for text in TEXTS]}
        if self.fault == "texts of fewer items":
            item_texts["nine"].pop()
        if self.fault == "texts of no list":
            item_texts["nine"][-1] = ("of no list",)
        if self.fault == "other texts":
            item_texts = {}
        return Prepared({"all": texts}, self._score, lambda: item_texts)

    def _score(self, vectors_by_name):
        import numpy as np

        vectors = vectors_by_name["all"]
        sizes = np.abs(vectors).mean(axis=1).astype(np.float64)
        value = float(sizes.mean()) * 100
        if self.fault == "not finite":
            value = float("nan")
        if self.fault == "by chance":
            value += random.random()
        if self.fault == "seeds Python":
            random.seed(0)
        protocol = {"id": "size"}
        if self.fault == "no protocol":
            protocol = {}
        scale = 100.0
        if self.fault == "other items":
            scale = 10.0
        items = Items("mean", sizes, scale=scale)
        if self.fault in ("not finite", "by chance"):
            items = None
        score = Score("nine", "size", value, protocol, items=items)
        scores = (score,)
        if self.fault == "twice":
            scores = (score, score)
        return Evaluation(scores, 0.0)


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

    fault: str = ""
    """What is wrong with it."""

    def factor(self, step, total_steps):
        """Return the multiplier."""
        if self.fault == "always 0":
            return 0.0
        if self.fault == "drawn":
            return random.random()
        if self.fault == "raises":
            raise KeyError(step)
        top = 1.0
        if self.fault == "above 1":
            top = 2.0
        return top * (step + 1) / total_steps


@attrs.frozen
class Shift(Transform):
    """Subtracts the mean."""

    name: ClassVar[str] = "shift"

    fault: str = ""
    """What is wrong with it."""

    def output_width(self, width):
        """Return the width."""
        if self.fault == "no width":
            return 0
        return width

    def texts(self, width):
        """Return nine texts."""
        if self.fault == "drawn texts":
            return [str(random.random())]
        if self.fault == "numbers":
            return [1, 2]
        return list(TEXTS)

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
        return vectors.mean(axis=0), matrix


class Constant(Schedule):
    """1 at every step."""

    def factor(self, step, total_steps):
        """Return 1."""
        return 1.0


@attrs.frozen
class Silent(Ramp):
    name: ClassVar[str] = "silent"


@attrs.frozen
class Miscalled(Ramp):
    """It says its paper under a name that nobody reads."""

    name: ClassVar[str] = "miscalled"
    cite = ("gao2021simcse",)


@attrs.frozen
class Unexplained(Ramp):
    """A field has no docstring."""

    name: ClassVar[str] = "unexplained"
    size: int = 1


@attrs.frozen
class Converted(Ramp):
    """It changes what it is given."""

    name: ClassVar[str] = "converted"
    size: int = attrs.field(default=1, converter=lambda value: value + 1)
    """One more than the recipe says."""


@attrs.frozen(eq=False)
class Unequal(Constant):
    """No two are equal."""

    name: ClassVar[str] = "unequal"


@attrs.frozen
class Listed(Ramp):
    """It has no hash."""

    name: ClassVar[str] = "listed"
    sizes: list[int] = attrs.field(factory=list)
    """A list, where a tuple should be."""


@attrs.frozen
class DotProduct(Similarity):
    """Dot products, or MaxSim for token vectors."""

    name: ClassVar[str] = "dot-product"
    compares = frozenset({"vector", "tokens"})

    fault: str = ""
    """What is wrong with it."""

    def similarity(self, first, second):
        """Return all similarities."""
        if hasattr(first, "mask"):
            return self._maxima(first, second)
        if self.fault == "detached":
            second = second.detach()
        if self.fault == "one row":
            return (first @ second.T)[:1]
        if self.fault == "of the block":
            first = first - first.mean(dim=0)
        if self.fault == "in place":
            first.mul_(2.0)
        return first @ second.T

    def _maxima(self, first, second):
        if self.fault == "token vectors in place":
            first.vectors.mul_(2.0)
        products = first.vectors[:, None, :, None] * second.vectors[:, None]
        similarities = products.sum(dim=-1)
        if self.fault != "compares padding":
            hidden = ~second.mask[None, :, None]
            similarities = similarities.masked_fill(hidden, -float("inf"))
        maxima = similarities.amax(dim=-1)
        return maxima.masked_fill(~first.mask[:, None], 0.0).sum(dim=-1)

    def pairwise(self, first, second):
        """Return the similarities of rows."""
        pairs = self.similarity(first, second).diagonal()
        if self.fault == "other pairs":
            return pairs.flip(0)
        return pairs


@attrs.frozen
class LastToZero(Intervention):
    """Sets the state of the last token to zero."""

    name: ClassVar[str] = "last-to-zero"

    fault: str = ""
    """What is wrong with it."""

    @property
    def places(self):
        """The input of the first block."""
        point = "block-input"
        if self.fault == "unknown point":
            point = "output"
        return frozenset({(point, 0)})

    def build(self):
        """Return the function."""
        import torch

        def change(inputs):
            states = inputs.states
            if self.fault != "in place":
                states = states.clone()
            if self.fault == "last column":
                states[:, -1] = 0.0
            elif self.fault == "drawn":
                states = states + torch.randn(())
            else:
                states[torch.arange(len(states)), inputs.last] = 0.0
            if self.fault == "shorter":
                return states[:, :-1]
            return states

        return change


HOOKS = (
    "run_started", "run_resumed", "stage_started", "step_finished", "validated", "observed", "checkpoint_saved",
    "tracker_state", "stage_finished", "warned", "evaluation_started", "evaluation_progressed", "scores_ready",
    "run_finished", "run_failed",
)  # fmt: skip
"""Hooks of a run."""


@attrs.frozen
class Listener(Tracker):
    """Listens to a run."""

    name: ClassVar[str] = "listener"

    fault: str = ""
    """What is wrong with it, or the hook that raises."""

    def build(self):
        """Return what listens."""
        if self.fault == "the same object":
            return LISTENING
        if self.fault in HOOKS:
            return _raising(self.fault)
        faulty = {
            "misspelt": Misspelt,
            "unmarked": Unmarked,
            "argument": Argument,
            "needs a state": NeedsState,
        }
        return faulty.get(self.fault, Listening)()


def _raising(hook):
    """Return an object whose hook of this name raises."""

    @hookimpl
    def raises(self, run):
        raise OSError("the disk is full")

    return type("Raising", (), {hook: raises})()


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


class NeedsState(Listening):
    @hookimpl
    def run_resumed(self, states):
        """Read a state that is not always there."""
        states["listener"]["step"]


LISTENING = Listening()
