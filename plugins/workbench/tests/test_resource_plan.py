"""A plan out of what components say, with figures that can be done by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import DataError, ModelError, RuntimeUnavailableError
from sentbed._cli import main as cli
from sentbed._recipe.recipe import Recipe, Validate
from sentbed.protocols import DataSource, DataTraits, Head
from sentbed_common import (
    Cost,
    Device,
    Outline,
    OutlineContext,
    PlannedBackbone,
    PlannedRuntime,
    Sketch,
)
from sentbed_workbench.resource_plan import Plan, Planner, plan
from sentbed_workbench.step_cost_estimates import FILLED
from toy_plugin import RECIPE, TOWERS

SLOW = Device(
    kind="cpu",
    name="abacus",
    precision="fp32",
    memory=1_000_000,
    libraries=1_000,
    flops=1e6,
    bandwidth=1e6,
    source="counted",
    share=(0.25, 0.5),
    token_budget=64,
)
COST = {
    "forward": Cost(token=10),
    "backward": Cost(token=20),
    "activations": Cost(once=7, token=100, pair=1),
}


@attrs.frozen
class Characters(toy_plugin.Characters, PlannedBackbone):
    """The toy's backbone, outlined: ten numbers, of which four are trained."""

    seen: list[OutlineContext] = attrs.field(factory=list, eq=False, repr=False)
    tokenized: bool = True
    missing: str = ""

    def outline(self, context: OutlineContext) -> Outline:
        self.seen.append(context)
        if self.missing:
            raise ModelError(self.missing)
        return Outline(
            parameters=10,
            trained={"embedding": (2, 2)},
            weight_bytes=40,
            copy_bytes=20,
            width=4,
            layers=4,
            inner=8,
            heads=1,
            vocabulary=64,
            max_length=64,
            source="counted",
            tokenizer=toy_plugin.CharacterTokenizer() if self.tokenized else None,
            **COST,
        )


@attrs.frozen
class Toy(toy_plugin.Toy, PlannedRuntime):
    """The toy's runtime, on an abacus."""

    device: Device = SLOW

    def outline(self, on: str | None = None) -> Device:
        if on is not None:
            raise RuntimeUnavailableError(f"no {on} here")
        return self.device

    def sketch_pooler(self, pooler: Any, width: int) -> Sketch:
        return Sketch({"dense": (width, 3)})

    def sketch_loss(
        self, loss: Any, width: int, batch_size: int, columns: frozenset[str]
    ) -> Sketch:
        assert columns == {"anchor", "positive"}
        return Sketch(
            {"scale": (width,)},
            state_bytes=50,
            activation_bytes=batch_size,
            flops=1000.0,
        )


@attrs.frozen
class Sgd(toy_plugin.Sgd):
    """The toy's optimiser, with two bytes a weight."""

    def state_bytes(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return sum(2 * int(np.prod(shape)) for shape in shapes.values())


@attrs.frozen
class Same(DataSource):
    """Rows of texts of three characters, four tokens."""

    name = "same"
    rows: int = 8
    columns: tuple[str, ...] = ("anchor", "positive")
    fetches: bool = False

    @property
    def traits(self) -> DataTraits:
        return DataTraits(fetches=self.fetches)

    def open(self) -> Any:
        from sentbed_common import InMemoryDataset

        if self.rows < 0:
            raise DataError("the file is gone")
        return InMemoryDataset({column: ["abc"] * self.rows for column in self.columns})


@pytest.fixture
def outlined(
    recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Recipe]:
    """The toy recipe, whose parts say what they know; `changes` are fields of its stage."""
    monkeypatch.setattr(
        toy_plugin.Average, "output_width", lambda self, width: 3, raising=False
    )

    def make(
        device: Device = SLOW,
        backbone: Characters | None = None,
        head: Head | None = None,
        data: Any = None,
        text: str = RECIPE,
        **changes: Any,
    ) -> Recipe:
        recipe = recipe_of(text)
        encoders = {
            name: attrs.evolve(
                encoder, backbone=backbone or Characters(), head=head or encoder.head
            )
            for name, encoder in recipe.encoders.items()
        }
        stages = tuple(
            attrs.evolve(stage, data=data or Same(), optimizer=Sgd(lr=0.5), **changes)
            for stage in recipe.stage
        )
        return attrs.evolve(
            recipe, runtime=Toy(device=device), encoders=encoders, stage=stages
        )

    return make


def test_where_components_say_nothing_the_rest_is_still_known(
    recipe_of: Callable[..., Recipe],
) -> None:
    found = plan(recipe_of())
    assert "has no `outline`" in found.device_problem
    assert "has no `outline`" in found.encoders[0].problem
    stage = found.stages[0]
    # Eleven rows in batches of four: three steps an epoch, and there are two.
    assert (stage.rows, stage.steps) == (11, 6)
    assert stage.problems == ("the encoder `encoder` is not known",)
    assert (stage.negatives, stage.seconds, stage.peak) == (None, None, None)


def test_parameters_are_those_of_backbone_pooler_and_head(
    outlined: Callable[..., Recipe],
) -> None:
    backbone = Characters()
    found = plan(
        outlined(backbone=backbone, head=Head(projection=5, bias=True))
    ).encoders[0]
    after = 4 * 3 + 3 * 5 + 5
    assert found.parameters == 10 + after
    assert found.trainable == 4 + after
    assert found.weight_bytes == 40 + 4 * after
    assert found.width == 5
    assert backbone.seen == [OutlineContext(frozenset(), "fp32", "cpu")]
    # Ten operations a token, of 250,000 to 500,000 a second.
    assert found.tokens_a_second == pytest.approx((25_000, 50_000))


def test_recipes_that_agree_in_what_costs_time_are_measured_once_and_planned_as_alone(
    outlined: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(cls: type, name: str) -> None:
        method = getattr(cls, name)
        monkeypatch.setattr(
            cls, name, lambda *given: calls.update([name]) or method(*given)
        )

    for cls, name in (
        (Toy, "outline"),
        (Characters, "outline"),
        (Toy, "sketch_loss"),
        (Same, "open"),
    ):
        counted(cls, name)
    first = outlined()
    (stage,) = first.stage
    recipes = [
        attrs.evolve(
            first,
            run=attrs.evolve(first.run, seed=seed),
            stage=(
                attrs.evolve(
                    stage,
                    optimizer=Sgd(lr=lr),
                    loss=attrs.evolve(stage.loss, noise=noise),
                ),
            ),
        )
        for seed in (1, 2)
        for lr in (0.1, 0.2, 0.3)
        for noise in (0.25, 0.5)
    ]
    planner = Planner()
    together = [planner.plan(recipe) for recipe in recipes]
    # The device and the backbone have an `outline` each.
    assert calls == {"outline": 2, "sketch_loss": 1, "open": 1}
    assert together == [plan(recipe) for recipe in recipes]
    assert (
        planner.plan(outlined(batch_size=2))
        == plan(outlined(batch_size=2))
        != together[0]
    )


def test_an_evaluation_is_counted_by_hand(outlined: Callable[..., Recipe]) -> None:
    recipe = outlined()
    seconds = Planner().evaluation(recipe, recipe.evaluate[0], "encoder")
    # Two texts of four tokens, ten operations a token.
    flops = 10 * 2 * 4
    assert seconds == pytest.approx((flops / 1e6 / 0.5, flops / 1e6 / 0.25))


def test_an_evaluation_that_cannot_be_counted_says_why(
    outlined: Callable[..., Recipe],
) -> None:
    recipe = outlined(backbone=Characters(missing="the configuration is gone"))
    assert (
        Planner().evaluation(recipe, recipe.evaluate[0], "encoder")
        == "the configuration is gone"
    )


def test_large_data_is_not_read_for_a_plan(
    outlined: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "texts").write_bytes(bytes(3_000_000))
    recipe = outlined()
    entry = recipe.evaluate[0]
    large = attrs.evolve(
        entry, with_=attrs.evolve(entry.with_, left=str(tmp_path / "corpus"))
    )
    assert isinstance(Planner().evaluation(recipe, large, "encoder"), tuple)
    monkeypatch.setattr("sentbed_workbench.workload_estimates.LARGE", 2_000_000)
    assert (
        Planner().evaluation(recipe, large, "encoder")
        == "its data of 3 MB is read when it runs"
    )


def test_a_step_is_counted_by_hand(outlined: Callable[..., Recipe]) -> None:
    stage = plan(outlined(batch_size=4, epochs=3)).stages[0]
    assert stage.steps == 2 * 3
    assert stage.tokens_a_text == 4
    tokens = 4 * 2 * 4
    assert stage.tokens_a_step == tokens
    assert stage.flops_a_step == 30 * tokens + 1000
    trained = 4 + 4 * 3 + 3
    assert stage.trained_parameters == trained
    activations = 7 + 8 * (100 * 4 + 16)
    assert stage.memory == {
        "weights": 40 + 4 * 12 + 4 * 3,
        "gradients": 4 * trained,
        "optimizer": 2 * trained,
        "activations": activations,
        "temporary": activations * 2 // 4,
        "loss": 4 + 2 * 4 * 4 * 3 * 2,
        "queue": 50,
        "libraries": 1000,
    }
    assert stage.peak == sum(stage.memory.values())
    assert stage.fits is True
    seconds = stage.flops_a_step / 1e6
    moved = 44 * trained / 1e6
    assert stage.seconds == pytest.approx(
        (6 * (seconds / 0.5 + moved), 6 * (seconds / 0.25 + moved))
    )


def test_a_plan_has_what_the_loss_remarks_on_its_rows(
    outlined: Callable[..., Recipe],
) -> None:
    @attrs.frozen
    class Remarking(toy_plugin.Pull):
        def without_effect(self, rows: int) -> Iterator[str]:
            yield f"{rows} rows"

    recipe = outlined()
    (stage,) = recipe.stage
    epochs = attrs.evolve(stage, loss=Remarking(), epochs=2, steps=None)
    steps = attrs.evolve(stage, loss=Remarking(), epochs=None, steps=3)
    found = plan(attrs.evolve(recipe, stage=(epochs, steps))).stages
    assert [one.remarks for one in found] == [
        ("16 rows",),
        (f"{3 * stage.batch_size} rows",),
    ]


@pytest.mark.parametrize(
    ("steps", "every", "validations"), [(40, 20, 3), (41, 20, 4), (3, 20, 2)]
)
def test_validations_are_those_of_the_loop_which_begins_and_ends_with_one(
    steps: int, every: int, validations: int, outlined: Callable[..., Recipe]
) -> None:
    recipe = outlined()
    validate = Validate(every, toy_plugin.Gap(development=True))
    stage = attrs.evolve(recipe.stage[0], epochs=None, steps=steps, validate=validate)
    assert (
        plan(attrs.evolve(recipe, stage=(stage,))).stages[0].validations == validations
    )
    assert plan(recipe).stages[0].validations is None


def test_gradient_caching_takes_one_more_forward_pass_and_holds_less(
    outlined: Callable[..., Recipe],
) -> None:
    whole = plan(outlined(batch_size=8)).stages[0]
    cached = plan(outlined(batch_size=8, micro_batch=2)).stages[0]
    assert whole.flops_a_step is not None
    assert cached.flops_a_step == whole.flops_a_step + 10 * whole.tokens_a_step
    assert whole.memory["activations"] == 7 + 16 * 416
    assert cached.memory["activations"] == 7 + 4 * 416


def test_a_step_that_does_not_fit_is_cut_into_what_does(
    outlined: Callable[..., Recipe],
) -> None:
    small = attrs.evolve(SLOW, memory=9_000)
    found = plan(outlined(device=small, batch_size=8)).stages[0]
    assert found.fits is False
    assert found.advice == "set `micro_batch = 4` in the stage"
    followed = plan(outlined(device=small, batch_size=8, micro_batch=4)).stages[0]
    assert followed.fits is True
    assert followed.peak is not None
    assert followed.peak <= FILLED * 9_000
    assert (
        plan(outlined(device=small, batch_size=8, micro_batch=8)).stages[0].fits
        is False
    )


def test_weights_that_do_not_fit_are_to_be_spread(
    outlined: Callable[..., Recipe],
) -> None:
    tiny = attrs.evolve(SLOW, kind="cuda", memory=3_094)
    found = plan(outlined(device=tiny, batch_size=2)).stages[0]
    assert found.fits is False
    assert 'set `parallel = "fsdp"` and `devices = 4` or more' in found.advice
    four = attrs.evolve(tiny, count=4, parallel="fsdp")
    assert (
        plan(outlined(device=four, batch_size=2, micro_batch=1)).stages[0].fits is True
    )
    alone = plan(outlined(device=attrs.evolve(tiny, kind="cpu"), batch_size=2)).stages[
        0
    ]
    assert "lora" in alone.advice
    assert "fsdp" not in alone.advice


def test_devices_share_rows_and_under_fsdp_what_is_trained(
    outlined: Callable[..., Recipe],
) -> None:
    one = plan(outlined(batch_size=8)).stages[0]
    ddp, fsdp = (
        plan(
            outlined(attrs.evolve(SLOW, count=2, parallel=parallel), batch_size=8)
        ).stages[0]
        for parallel in ("ddp", "fsdp")
    )
    assert ddp.memory["activations"] == 7 + 8 * 416
    assert ddp.memory["gradients"] == one.memory["gradients"]
    assert fsdp.memory["gradients"] == one.memory["gradients"] // 2
    assert fsdp.memory["optimizer"] == one.memory["optimizer"] // 2
    assert ddp.tokens_a_step == one.tokens_a_step
    assert ddp.seconds is not None
    assert one.seconds is not None
    assert ddp.seconds < one.seconds


def test_a_frozen_encoder_computes_forward_only(
    outlined: Callable[..., Recipe],
) -> None:
    stage = plan(outlined(text=TOWERS, batch_size=4)).stages[0]
    assert (stage.trained, stage.frozen) == (("zh",), ("en",))
    assert stage.flops_a_step == 4 * 4 * 30 + 4 * 4 * 10 + 1000
    assert stage.memory["frozen copies"] == 20
    assert stage.memory["activations"] == 7 + 4 * 416
    kept = plan(
        outlined(text=TOWERS, batch_size=4, cache_frozen=True, epochs=4)
    ).stages[0]
    assert kept.flops_a_step == 4 * 4 * 30 + 4 * 4 * 10 / 4 + 1000


def test_without_a_tokenizer_lengths_are_guessed_from_words(
    outlined: Callable[..., Recipe],
) -> None:
    stage = plan(outlined(backbone=Characters(tokenized=False))).stages[0]
    # One word and two special tokens.
    assert stage.tokens_a_text == 3
    assert "guessed" in stage.lengths


def test_data_that_would_be_fetched_is_not(outlined: Callable[..., Recipe]) -> None:
    stage = plan(
        outlined(data=Same(rows=-1, fetches=True), epochs=None, steps=9)
    ).stages[0]
    assert (stage.rows, stage.steps) == (None, 9)
    # As long as `max_length`.
    assert stage.tokens_a_text == 16
    assert stage.seconds is not None
    assert "fetched from the hub" in stage.problems[0]


def test_data_that_cannot_be_read_leaves_the_number_of_steps_open(
    outlined: Callable[..., Recipe],
) -> None:
    stage = plan(outlined(data=Same(rows=-1))).stages[0]
    assert (stage.steps, stage.seconds) == (None, None)
    assert stage.memory
    assert stage.problems == ("the file is gone",)


def test_an_encoder_that_is_not_known_leaves_the_steps(
    outlined: Callable[..., Recipe],
) -> None:
    found = plan(outlined(backbone=Characters(missing="nowhere to be found")))
    assert found.encoders[0].problem == "nowhere to be found"
    assert found.stages[0].steps == 6 - 2 * 1
    assert found.stages[0].memory == {}


def test_a_device_that_is_not_here_leaves_the_memory(
    outlined: Callable[..., Recipe],
) -> None:
    found = plan(outlined(), on="Cray")
    assert found.device_problem == "no Cray here"
    stage = found.stages[0]
    assert stage.peak
    assert (stage.fits, stage.seconds) == (None, None)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(cli.main, ["plan", *map(str, arguments)])


def test_the_command_says_what_is_known(
    put: Callable[..., Path], installed_toy: Path
) -> None:
    done = invoke(put("recipe.toml", RECIPE), "--set", "stage.pull.batch_size=5")
    assert done.exit_code == 0, done.output
    # Of eleven rows, the last one has no negatives and is left out.
    assert "4 steps of 5 rows, 2 epochs" in done.output
    assert done.output.count("unknown") >= 2


def test_the_command_prints_every_number_as_json(
    put: Callable[..., Path],
    installed_toy: Path,
    outlined: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected: Plan = plan(outlined())
    monkeypatch.setattr("sentbed._recipe.load.load_recipe", lambda *_: outlined())
    path = put("recipe.toml", RECIPE)
    found = json.loads(invoke(path, "--json").output)
    assert found["stages"][0]["memory"] == dict(expected.stages[0].memory)
    assert found["stages"][0]["seconds"] == list(expected.stages[0].seconds or ())
    assert found["device"]["flops"] == 1e6
    text = invoke(path).output
    assert "runtime cpu: abacus, fp32" in text
    assert "1 MB: fits" in text
    assert "25% to 50% of the peak" in text


def test_a_bad_recipe_is_a_message(
    put: Callable[..., Path], installed_toy: Path
) -> None:
    done = invoke(put("recipe.toml", RECIPE.replace("seed", "sede")))
    assert done.exit_code == 2
    assert "sede" in done.output


@pytest.mark.parametrize(
    ("precision", "planned"), [("auto", "bf16"), ("fp16", "fp16"), ("int8", "fp32")]
)
def test_a_precision_that_only_an_engine_of_others_knows_is_planned_as_fp32(
    precision: str, planned: str, recipe_of: Callable[..., Recipe]
) -> None:
    @attrs.frozen
    class Rounding(toy_plugin.Toy):
        precision: str = "int8"

    recipe = attrs.evolve(recipe_of(RECIPE), runtime=Rounding(precision=precision))
    assert plan(recipe).device.precision == planned
