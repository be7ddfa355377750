"""The conformance suite finds engines that break the contract, each by the rule that is meant for it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import sentbed_testing as testing
import torch
from sentbed._registry.registry import load_plugins
from sentbed.protocols import TokenIds, Training
from sentbed_testing import EnginePair, cases, engine_rules, part

pytestmark = pytest.mark.slow

CPU = {"use": "cpu", "threads": 1}
PLUGINS = load_plugins()


class Wrapped:
    """Whatever stands behind it, but for what a subclass does otherwise."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Faulty(Wrapped):
    """The engine `cpu`, whose trainers and encoders go through the functions that a test gives."""

    trained: Callable[[Any], Any] = staticmethod(lambda trainer: trainer)
    placed: Callable[[Any], Any] = staticmethod(lambda placed: placed)
    altered: Callable[[Training], Training] = staticmethod(lambda training: training)

    def assemble(self, *arguments, **more):
        return self.placed(self.inner.assemble(*arguments, **more))

    def trainer(self, encoders, training):
        return self.trained(self.inner.trainer(encoders, self.altered(training)))


def rows_of(columns, rows):
    """Return some rows of a batch."""

    def text(tokens, row):
        ids = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        return TokenIds(ids, np.array([0, len(ids)]))

    return {
        name: TokenIds.join(text(value, row) for row in rows)
        if isinstance(value, TokenIds)
        else value[rows]
        for name, value in columns.items()
    }


class SameDropout(Wrapped):
    def gradients(self, columns):
        torch.manual_seed(1)
        return self.inner.gradients(columns)


class SameDropoutInSteps(Wrapped):
    def step(self, columns):
        torch.manual_seed(1)
        return self.inner.step(columns)


class ForgetsMemory(Wrapped):
    def step(self, columns):
        self.inner.loss_state = self.inner.loss.initial_state()
        return self.inner.step(columns)


class AccumulatesOverMicroBatches(Wrapped):
    def gradients(self, columns):
        if self.inner.training.micro_batch is None:
            return self.inner.gradients(columns)
        halves = [
            self.inner.gradients(rows_of(columns, rows)) for rows in ([0, 1], [2, 3, 4])
        ]
        mean = {
            name: sum(half[1][name] for half in halves) / 2 for name in halves[0][1]
        }
        return sum(half[0] for half in halves) / 2, mean


class DecaysAnyway(Wrapped):
    def step(self, columns):
        result = self.inner.step(columns)
        if not math.isfinite(result.loss):
            with torch.no_grad():
                next(iter(self.inner.parameters.values())).mul_(0.999)
        return result


class RemembersInfinity(Wrapped):
    def step(self, columns):
        result = self.inner.step(columns)
        if not math.isfinite(result.loss):
            self.inner.loss_state["memory"][0] = math.inf
        return result


class CopiesAverage(Wrapped):
    def swap_average(self):
        self.inner.swap_average()
        for average in self.inner.ema.values():
            for name, value in average.followed.items():
                average.tensors[name].copy_(value)


class LosesLastRow(Wrapped):
    def gradients(self, columns):
        rows = len(columns["anchor"])
        return self.inner.gradients(rows_of(columns, list(range(rows - rows % 2))))


class MixesVectors(Wrapped):
    def gradients(self, columns):
        turned = {
            name: v if isinstance(v, TokenIds) else v[::-1].copy()
            for name, v in columns.items()
        }
        return self.inner.gradients(turned)


class SharesGradients(Wrapped):
    def gradients(self, columns):
        loss, gradients = self.inner.gradients(columns)
        return loss, {
            name: gradients[name.replace("right.", "left.")] for name in gradients
        }


class TakesAStep(Wrapped):
    def gradients(self, columns):
        gradients = self.inner.gradients(columns)
        self.inner.step(columns)
        return gradients


def without_dropout(trainer):
    for tower in trainer.towers.values():
        tower.module.eval()
        tower.module.train = lambda mode=True: None
    return trainer


def clipping_twice(trainer):
    step, limit = trainer.optimizer.step, trainer.training.max_grad_norm

    def clip_and_step():
        for parameter in trainer.parameters.values():
            torch.nn.utils.clip_grad_norm_([parameter], limit / 20)
        step()

    trainer.optimizer.step = clip_and_step
    return trainer


def average_at_rest(trainer):
    for average in trainer.averages.values():
        average.update = lambda: None
    return trainer


def forgetting(what):
    """Return what makes a trainer that leaves something behind when it loads."""

    class Forgets(Wrapped):
        def load(self, directory):
            self.inner.load(directory)
            what(self.inner)

    return Forgets


def blind_to_padding(placed):
    encode = placed.encode
    placed.encode = lambda batch: encode(attrs.evolve(batch, attention_mask=None))
    return placed


def stale(placed):
    encode, kept = placed.encode, []

    def encode_as_at_first(batch):
        if not kept:
            kept.append(copy.deepcopy(placed.module.state_dict()))
        trained = copy.deepcopy(placed.module.state_dict())
        placed.module.load_state_dict(kept[0])
        placed.weights_changed()
        vectors = encode(batch)
        placed.module.load_state_dict(trained)
        return vectors

    placed.encode = encode_as_at_first
    return placed


def undecayed(training):
    optimizer = training.optimizer
    return attrs.evolve(training, optimizer=attrs.evolve(optimizer, weight_decay=0.0))


def off_centre(placed):
    transformed = placed.transformed

    def without_mean(fit=None, on=None):
        return off_centre(transformed(fit and (0 * fit[0], fit[1]), on))

    placed.transformed = without_mean
    return placed


def hashes_anew(placed):
    """Give each placed encoder a fingerprint of its own."""
    placed.fingerprint = lambda: str(id(placed))
    return placed


def loads_anything(trainer):
    load = trainer.load
    fits = next(iter(trainer.encoders.values())).width == 128
    trainer.load = lambda directory: load(directory) if fits else None
    return trainer


INFO_NCE, QUEUE, MOMENTUM, DROPPED = "info-nce", "queue", "momentum", "dropped"
CHECKS = {
    "encode": testing.check_encode,
    "transform": testing.check_transform,
    "saved": testing.check_saved,
    "gradients": testing.check_loss_and_gradients,
    "grad-cache": testing.check_grad_cache,
    "uneven-batch": testing.check_uneven_batch,
    "frozen-columns": testing.check_frozen_columns,
    "towers": testing.check_towers,
    "clipping": testing.check_clipping,
    "moving-average": testing.check_moving_average,
    "steps of adamw": testing.check_steps,
    "momentum-and-queue": testing.check_momentum_and_queue,
    "state of adamw": testing.check_state,
    "dropout": testing.check_dropout_advances,
    "not-finite": testing.check_not_finite,
}
FAULTS: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "averages over padding",
        "encode",
        {"placed": blind_to_padding},
        INFO_NCE,
        "a batch with padding differs",
    ),
    (
        "subtracts no mean",
        "transform",
        {"placed": off_centre},
        INFO_NCE,
        "a fitted transform differs from",
    ),
    (
        "hashes anew",
        "saved",
        {"placed": hashes_anew},
        INFO_NCE,
        "`fingerprint` differs after loading",
    ),
    (
        "takes a step",
        "gradients",
        {"trained": TakesAStep},
        INFO_NCE,
        "those of a second call",
    ),
    (
        "accumulates",
        "grad-cache",
        {"trained": AccumulatesOverMicroBatches},
        INFO_NCE,
        "`micro_batch = 2`",
    ),
    (
        "loses a row",
        "uneven-batch",
        {"trained": LosesLastRow},
        INFO_NCE,
        "in a batch of 5 rows",
    ),
    (
        "mixes vectors",
        "frozen-columns",
        {"trained": MixesVectors},
        INFO_NCE,
        "if `positive` holds vectors",
    ),
    (
        "shares gradients",
        "towers",
        {"trained": SharesGradients},
        INFO_NCE,
        "its own encoder",
    ),
    (
        "clips twice",
        "clipping",
        {"trained": clipping_twice},
        INFO_NCE,
        "clip once, over all parameters",
    ),
    (
        "copies the average",
        "moving-average",
        {"trained": CopiesAverage},
        INFO_NCE,
        "and exchange weights and average instead",
    ),
    (
        "forgets decay",
        "steps of adamw",
        {"altered": undecayed},
        INFO_NCE,
        "differs from the reference's",
    ),
    (
        "encodes with old weights",
        "steps of adamw",
        {"placed": stale},
        INFO_NCE,
        "differs from the saved weights",
    ),
    (
        "forgets the queue",
        "momentum-and-queue",
        {"trained": ForgetsMemory},
        QUEUE,
        "`loss` of step 2",
    ),
    (
        "average at rest",
        "momentum-and-queue",
        {"trained": average_at_rest},
        MOMENTUM,
        "`loss` of step 2",
    ),
    (
        "drops the same",
        "dropout",
        {"trained": SameDropout},
        DROPPED,
        "`gradients` gave the loss",
    ),
    (
        "steps drop the same",
        "dropout",
        {"trained": SameDropoutInSteps},
        DROPPED,
        "or its mask is always the same",
    ),
    (
        "drops nothing",
        "dropout",
        {"trained": without_dropout},
        DROPPED,
        "there is no dropout",
    ),
    (
        "has no seed",
        "dropout",
        {"seed": lambda seed: None},
        DROPPED,
        "seed every generator",
    ),
    (
        "decays anyway",
        "not-finite",
        {"trained": DecaysAnyway},
        QUEUE,
        "changed weights",
    ),
    (
        "remembers infinity",
        "not-finite",
        {"trained": RemembersInfinity},
        QUEUE,
        "changed the loss's state",
    ),
    (
        "restores no moments",
        "state of adamw",
        {"trained": forgetting(lambda trainer: trainer.optimizer.state.clear())},
        DROPPED,
        "after `load` the loss differs",
    ),
    (
        "restores no generator",
        "state of adamw",
        {"trained": forgetting(lambda trainer: torch.manual_seed(3))},
        DROPPED,
        "after `load` the loss differs",
    ),
    (
        "loads anything",
        "state of adamw",
        {"trained": loads_anything},
        DROPPED,
        "raise `ModelError`",
    ),
]


@pytest.fixture(scope="module")
def sound():
    engine = part("runtime", CPU, PLUGINS).build()
    return EnginePair.of(engine, engine, PLUGINS)


@pytest.fixture(scope="module")
def small():
    """BERT under the mean, by loss; `dropped` has dropout."""
    table = {"use": "bert", "init": "random", "vocab_size": 512, "dropout": 0.0}
    poolers = {"mean": part("pooler", {"use": "mean"}, PLUGINS)}
    by_loss = {
        case.loss_name: case
        for case in cases(PLUGINS, {"bert": part("backbone", table, PLUGINS)}, poolers)
    }
    dropping = part("backbone", {**table, "dropout": 0.1}, PLUGINS)
    return by_loss | {DROPPED: attrs.evolve(by_loss[INFO_NCE], backbone=dropping)}


def broken(sound, fault):
    """Return a pair with a faulty engine, beside the sound one and with its encoders."""
    engine = Faulty(sound.reference)
    for name, value in fault.items():
        setattr(engine, name, value)
    pair = EnginePair.of(engine, sound.reference, PLUGINS)
    pair._saved = list(sound._saved)
    return pair


def fault_cases():
    """Return the faults as parameters; the first that a rule finds is a quick case."""
    rules = set()
    parameters = []
    for name, *fault in FAULTS:
        marks = pytest.mark.slow if fault[0] in rules else ()
        parameters.append(pytest.param(*fault, id=name.replace(" ", "-"), marks=marks))
        rules.add(fault[0])
    return parameters


@pytest.mark.parametrize(("rule", "fault", "loss", "says"), fault_cases())
def test_a_planted_fault_is_found_by_its_rule(
    sound,
    small,
    fault,
    loss,
    rule,
    says,
):
    case = small[loss]
    # The sound engine keeps the rule: `test_engines.py`.
    with pytest.raises(AssertionError) as caught:
        CHECKS[rule](broken(sound, fault), case)
    message = str(caught.value)
    assert message.startswith(f"{rule}: {case.id}: ")
    assert says in message


def test_caching_that_drops_others_in_its_second_pass_is_found(
    sound, small, monkeypatch
):
    testing.check_derivative(sound, small[DROPPED], micro_batch=2)
    monkeypatch.setattr(
        "sentbed_hardware._torch.tower.restore_generators", lambda _: None
    )
    with pytest.raises(
        AssertionError,
        match=r"^derivative: bert/mean/info-nce: the loss and its gradient",
    ):
        testing.check_derivative(sound, small[DROPPED], micro_batch=2)


def test_every_rule_has_a_fault_that_it_finds():
    rules = {rule.partition(" ")[0] for _, rule, *_ in FAULTS} | {
        "derivative",
        "describe",
    }
    assert {
        name.partition("/")[0] for name in engine_rules(CPU, plugins=PLUGINS)
    } == rules
