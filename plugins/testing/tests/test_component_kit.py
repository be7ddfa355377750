"""The kit itself: every rule of a class and of each kind can fail, and says what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import attrs
import faulty_classes as classes
import faulty_parts as parts
import pytest
from component_checks import check_component
from sentbed._registry.offers import Offer
from sentbed._registry.registry import load_plugins
from sentbed.kinds import KINDS
from sentbed.protocols import Exporter, Pooler, Pooling
from sentbed_testing import (
    ConformanceError,
    NotRunError,
    component_rules,
    fixtures,
    parametrize_with_rules,
    rules_component_class,
)
from sentbed_testing.component_under_test import deduce_kind, installed
from sentbed_testing.conformance import MODULES, is_in_package

sentences, tiny_encoder, token_states = (
    fixtures.sentences,
    fixtures.tiny_encoder,
    fixtures.token_states,
)

OF_A_CLASS = {"frozen", "named", "documented", "protocol"}
OF_FIELDS = {
    "field-types",
    "defaults",
    "toml",
    "values",
    "inner",
}


def broken(cls, only=None, **fields):
    """Run the rules of a class, and return the message of each that it breaks."""
    messages = {}
    for name, rule in component_rules(cls, example=fields).items():
        if only is not None and name not in only:
            continue
        try:
            rule()
        except NotRunError:
            continue
        except ConformanceError as error:
            messages[name] = "\n".join(map(str, error.failures))
    return messages


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    ("name", "rules", "message"),
    [
        ("Good", set(), ""),
        ("Thawed", {"frozen", "values"}, "decorate it with `@attrs.frozen`"),
        ("Shouting", {"named"}, "it is called 'The_Last'; use only small letters"),
        (
            "Silent",
            {"documented"},
            "the class has no docstring.*\n.*the field `size` has no documentation",
        ),
        (
            "Misshapen",
            {"protocol"},
            "`build` cannot be called with 1 argument",
        ),
        (
            "Untyped",
            {"field-types", "values"},
            "`sizes` has the type `list\\[int\\]`, which no recipe",
        ),
        (
            "Refused",
            {"defaults"},
            "the default of `size`, 0, is refused by its own validator",
        ),
        (
            "Required",
            {"defaults"},
            "fields without a default: `size`; give them in an `example`",
        ),
        (
            "Changed",
            {"toml", "values"},
            "written as TOML it becomes .*size=3.*, not .*size=2",
        ),
        ("Unequal", {"toml", "values"}, "two with the same fields are not equal"),
    ],
)
def test_a_fault_of_a_class_breaks_its_rules(name, rules, message):
    messages = broken(getattr(classes, name), OF_A_CLASS | OF_FIELDS)
    assert messages.keys() == rules
    assert re.search(message, "\n".join(messages.values())), messages


@attrs.frozen
class Enclosing(classes.Last):
    """It passes on what the pooler in its field needs."""

    inner: Pooler
    """A pooler."""


@attrs.frozen
class Hiding(Enclosing):
    """It has needs of its own alone."""

    needs = frozenset()


@attrs.frozen
class Repeating(Enclosing):
    """It calls the inner `check`, which core calls."""

    def check(self):
        """Yield what the inner pooler yields."""
        yield from self.inner.check()


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Enclosing, ""),
        (Hiding, "has `needs = ['of-the-inner']`, but the outer one has []; write"),
        (
            Repeating,
            "its `check` calls that of the pooler in `inner`; leave the call out",
        ),
    ],
)
def test_a_component_is_held_to_the_one_in_its_field(cls, message):
    messages = broken(cls, {"inner"}, inner={"use": "mean"})
    assert message in messages.get("inner", "")
    assert bool(messages) == bool(message)


def test_a_name_that_an_installed_part_has_is_refused():
    pytest.importorskip("sentbed_poolers")
    message = broken(classes.Taken, OF_A_CLASS)["named"]
    assert (
        "the pooler `mean` is offered by `sentbed-poolers` already; choose another `name`"
        in message
    )


def test_a_name_that_is_claimed_twice_already_is_refused(
    monkeypatch,
):
    @attrs.frozen
    class Other(classes.Taken):
        """Another pooler of this name."""

    claims = [
        Offer("pooler", "mean", classes.Taken, "sentbed-mine", "1.0"),
        Offer("pooler", "mean", Other, "sentbed-poolers", "1.0"),
    ]
    plugins = attrs.evolve(load_plugins(()), offers={("pooler", "mean"): claims})
    monkeypatch.setattr(rules_component_class, "installed", lambda: plugins)
    message = broken(classes.Taken, {"named"})["named"]
    assert (
        message
        == "named: the pooler `mean` is offered by `sentbed-poolers` already; choose another `name`"
    )


def test_the_words_for_pooling_are_those_of_the_protocol_and_of_the_exporters():
    names = pytest.importorskip(
        "sentbed_interop._torch.sentence_transformers_names",
        reason="needs sentbed-interop",
    )
    assert set(names.POOLING) == set(get_args(Pooling))


OF_KINDS: Mapping[type[Any], list[tuple[str, set[str], str]]] = {
    parts.Nine: [
        (
            "other columns",
            {"columns"},
            "that of the opened data set is \\('anchor', 'positive'\\)",
        ),
        ("sorted rows", {"rows"}, "in the order of the indices"),
        (
            "unsaid numbers",
            {"rows"},
            "`positive` has 1.5, which is no string; give strings, or say",
        ),
        ("each row once", {"rows"}, "give one value for each index"),
        ("changes with the epoch", {"rows", "texts"}, "set `varies = True`"),
        (
            "changes with the call",
            {"rows", "texts"},
            "let random values depend on seed, epoch and row alone",
        ),
        (
            "changes with the batch",
            {"rows", "texts"},
            "differs between rows read one by one",
        ),
        (
            "one column of texts",
            {"texts"},
            "leaves out 9 texts of `positive`, such as 'text 0 ag",
        ),
        ("fingerprint of an address", {"fingerprint"}, "two fingerprints"),
        (
            "goes round",
            {"bad-index"},
            "it has 9 rows, but index 9 is accepted; raise IndexError",
        ),
    ],
    parts.Size: [
        (
            "not finite",
            {"scores", "repeatable"},
            "the score nine/size is nan; give a finite",
        ),
        ("one half", {"lists"}, "`prepare` returns method; return `Prepared`"),
        ("two sides", {"lists"}, "the list `all` has a second side; say"),
        ("one more", {"lists"}, "the vectors of the list `more` are not used"),
        (
            "other texts",
            {"lists", "repeatable"},
            "it prepares other texts the second time; draw from a `seed`",
        ),
        ("no protocol", {"scores"}, "the protocol of nine/size has no `id`"),
        ("twice", {"scores"}, "two scores have the same task, metric and protocol"),
        ("an iterator", {"scores"}, "it encodes tuple_iterator; give `encode` a list"),
        ("by chance", {"repeatable"}, "the second time; draw from a `seed`"),
        (
            "a score is no item",
            {"items"},
            "mean of 1 value.s., and the vector of any text changes",
        ),
        (
            "folds are no items",
            {"items"},
            "changes at least 100 % of them: they are no items; give",
        ),
        ("other items", {"items"}, "and its items give"),
        (
            "texts of fewer items",
            {"items"},
            "`item_texts` has 8 items of nine/size, and the score has 9",
        ),
        (
            "texts of no list",
            {"items"},
            "has an item of nine with a text that no list has",
        ),
    ],
    parts.Descent: [
        ("ascends", {"descends"}, "after 5 steps the loss is"),
        (
            "forgets scalars",
            {"descends"},
            "the parameter `temperature` does not change",
        ),
        (
            "another rate",
            {"rate"},
            "`lr` is 0.01, but its parameter groups have \\[0.02\\]",
        ),
        ("decays apart", {"rate"}, "with `lr` 0, a step changes weights"),
        ("counts apart", {"resume"}, "keep everything that decides a step in `state`"),
    ],
    parts.Listener: [
        (
            "misspelt",
            {"hooks"},
            "no hook `stage_finnished` of a run. Did you mean `stage_fin",
        ),
        (
            "unmarked",
            {"hooks"},
            "`run_finished` has the name of a hook, but is not marked as its implementation",
        ),
        ("argument", {"hooks"}, "the hook `step_finished` has no argument `number`"),
        ("one for all", {"apart"}, "create a new object for each run"),
    ],
    parts.Nowhere: [
        ("no budget", {"engine"}, "`token_budget` is 0"),
        ("no precision", {"engine"}, "give a table with `precision`"),
        ("words", {"engine"}, "the counter `device_memory_gib` is 'much'"),
        ("no trainer", {"engine"}, "the engine has no method `trainer`"),
    ],
    parts.Shift: [
        ("numbers", {"texts"}, r"returned \[1, 2\]; return a list of strings"),
        ("drawn texts", {"texts"}, "a second call of `texts` gives other texts"),
        ("no width", {"fit"}, r"`output_width\(8\)` is 0"),
        ("nothing", {"fit", "equal-vectors"}, "returned no mean and matrix"),
        (
            "narrow",
            {"fit"},
            r"a matrix of the shape \(8, 7\); return \(8,\) and, .* \(8, 8\)",
        ),
        ("drawn", {"fit"}, "a second call of `fit` gives another transform"),
        ("writes", {"fit"}, "`fit` writes into its vectors"),
        (
            "scales",
            {"equal-vectors"},
            "all equal, `fit` returned NaN or infinite values",
        ),
    ],
}
"""A class -> its faults, the rules that each breaks, and what they say."""


def test_a_runtime_that_says_so_builds_an_engine_without_a_trainer():
    passed, _ = check_component(
        parts.Nowhere, kind="runtime", example={"fault": "only encodes"}
    )
    assert "engine" in passed


@pytest.mark.sweep(12)
@pytest.mark.parametrize(
    ("cls", "fault", "rules", "message"),
    [
        pytest.param(cls, *case, id=f"{deduce_kind(cls)}, {case[0]}")
        for cls, cases in OF_KINDS.items()
        for case in cases
    ],
)
def test_a_fault_of_a_kind_breaks_its_rules(cls, fault, rules, message):
    messages = broken(cls, fault=fault)
    assert messages.keys() == rules
    assert re.search(message, "\n".join(messages.values())), messages


def test_a_schedule_stays_between_0_and_1():
    messages = broken(parts.Ramp, top=2.0)
    assert messages.keys() == {"factor"}
    assert (
        "step 0 of 1 has the multiplier 2.0; return a number in [0, 1]"
        in messages["factor"]
    )
    assert (
        "all 1000 steps have the multiplier 0" in broken(parts.Ramp, top=0.0)["factor"]
    )


def test_a_transform_that_keeps_its_contract_passes_every_rule():
    passed, _ = check_component(parts.Shift)
    assert {"texts", "fit", "equal-vectors", "tried"} < set(passed)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "cls",
    [
        parts.Nine,
        parts.Size,
        parts.Descent,
        parts.Ramp,
        parts.Listener,
        parts.Nowhere,
        parts.Anything,
    ],
)
def test_without_a_fault_every_rule_holds(cls):
    kind = deduce_kind(cls)
    passed, not_run = check_component(cls, kind=kind)
    assert not_run == {}
    assert set(passed) > OF_A_CLASS | OF_FIELDS
    assert MODULES[kind]


def test_a_component_whose_check_finds_something_is_not_tried_further():
    class Wanting(parts.Ramp):
        """It wants a file."""

        def check(self):
            return ["the file is missing; add it"]

    rules = component_rules(Wanting, kind="schedule")
    with pytest.raises(
        NotRunError, match="`check` says: the file is missing; add it; an `example`"
    ):
        rules["factor"]()
    message = (
        "tried: none of the 1 rules of the kind `schedule` could be run: the component's `check` says: the "
        "file is missing; add it; an `example` with other fields may pass it; give an `example` whose `check`"
    )
    with pytest.raises(ConformanceError, match=message):
        rules["tried"]()
    reasons = {
        "tried": "the file is not for everyone",
        "values": "it stands in a function",
    }
    _, not_run = check_component(Wanting, kind="schedule", skip=reasons)
    assert set(not_run) == {"values", "factor", "tried"}


@pytest.mark.parametrize("kind", MODULES)
def test_a_kind_of_which_no_rule_was_run_is_never_green(kind):
    class Wanting(KINDS[kind].base):
        name = "wanting"

        def check(self):
            return ["the file is missing; add it"]

    with pytest.raises(ConformanceError) as caught:
        check_component(Wanting, kind=kind)
    assert "tried" in [failure.rule for failure in caught.value.failures]


def test_a_rule_may_be_skipped_with_a_reason_and_no_other():
    _, not_run = check_component(
        parts.Ramp, example={"top": 2.0}, skip={"factor": "it warms up beyond"}
    )
    assert not_run == {"factor": "it warms up beyond"}
    with pytest.raises(
        ConformanceError, match="`skip` names `order`, and a schedule has no such rule"
    ):
        check_component(parts.Ramp, skip={"order": "why"})
    with pytest.raises(
        ConformanceError, match="the rule `factor` is left out without a reason; say"
    ):
        check_component(parts.Ramp, skip={"factor": " "})


def test_a_kind_without_rules_of_its_own_says_so():
    class Folder(Exporter):
        """Writes nothing."""

        name = "folder"

        def write(self, encoder, directory):
            """Write nothing."""

    rules = component_rules(attrs.frozen(Folder))
    with pytest.raises(
        NotRunError, match="the kit knows no rule of the kind `exporter`"
    ):
        rules["tried"]()


@pytest.mark.parametrize(
    ("cls", "kind"),
    [
        (classes.Good, "pooler"),
        (parts.Nine, "data"),
        (parts.Size, "evaluator"),
        (parts.Descent, "optimizer"),
        (parts.Ramp, "schedule"),
        (parts.Shift, "transform"),
        (parts.Listener, "tracker"),
        (parts.Anything, "importer"),
        (parts.Nowhere, "runtime"),
        (int, None),
    ],
)
def test_the_kind_is_seen_by_the_base_class(cls, kind):
    assert deduce_kind(cls) == kind


def test_a_kind_that_cannot_be_seen_has_to_be_said():
    with pytest.raises(
        ConformanceError,
        match="nothing tells which kind of component it is; say `kind`, one of backbone",
    ):
        check_component(int)
    with pytest.raises(ConformanceError, match="there is no kind 'poolr'"):
        check_component(classes.Good, kind="poolr")


TESTS = """
import attrs
from sentbed_testing import component_rules, parametrize_with_rules
from faulty_parts import Ramp


class Wanting(Ramp):
    \"\"\"It wants a file.\"\"\"

    name = "wanting"

    def check(self):
        return ["the file is missing; add it"]


RAMPS = [
    component_rules(Ramp, example={"top": 2.0}, skip={"factor": "it warms up beyond"}),
    component_rules(Wanting, skip={"tried": "not here"}),
]


@parametrize_with_rules(RAMPS)
def test_rule(rule):
    rule()


@parametrize_with_rules([component_rules(Wanting, must_run=True)])
def test_required(rule):
    if rule.name == "factor":
        rule()


@parametrize_with_rules([Ramp])
def test_fields(rule):
    if rule.name == "factor":
        rule(example={"top": 2.0})


@parametrize_with_rules([Ramp])
def test_fields_by_component(rule):
    if rule.name == "factor":
        rule(examples={"schedule/ramp": {"top": 2.0}, "loss/other": {"size": 1}})
"""


def pytest_output(source, directory):
    """Run the tests in `source`, and return what pytest prints."""
    (directory / "test_mine.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-rsf", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(Path(parts.__file__).parent), *sys.path])
    return subprocess.run(
        [*command, "--rootdir", ".", "test_mine.py"],
        check=False,
        cwd=directory,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ).stdout


def test_pytest_shows_a_rule_that_is_not_run_with_its_reason(tmp_path):
    output = pytest_output(TESTS, tmp_path)
    lines = output.splitlines()
    skipped = [line for line in lines if line.startswith("SKIPPED")]
    for reason in ("it warms up beyond", "not here", "the file is missing; add it"):
        assert reason in "\n".join(skipped), output
    failed = [line for line in lines if line.startswith("FAILED")]
    assert [line.split()[1] for line in failed] == [
        "test_mine.py::test_required[schedule/wanting/factor]",
        "test_mine.py::test_fields[schedule/ramp/factor]",
        "test_mine.py::test_fields_by_component[schedule/ramp/factor]",
    ]
    assert "it could not be run: the component's `check` says" in output
    assert "has the multiplier 2.0" in output


def test_a_list_without_a_component_is_no_test():
    with pytest.raises(ValueError, match="there is no rule to try"):
        parametrize_with_rules([])


def test_a_file_of_another_package_is_not_the_components_own():
    assert is_in_package(classes.__file__, classes.Good)
    assert not is_in_package(parts.__file__, classes.Good)


def test_states_are_the_same_wherever_the_padding_is(
    token_states,
):
    right, left = (
        token_states([2, 3], width=4, side=side, needs={"layers"}, more=1)
        for side in ("right", "left")
    )
    assert right.attention_mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
    assert left.attention_mask.tolist() == [[0, 0, 1, 1], [0, 1, 1, 1]]
    for right_layer, left_layer in zip(right.layers, left.layers, strict=True):
        assert right_layer[0, :2].tolist() == left_layer[0, 2:].tolist()
    assert right.layers[-1].tolist() == right.last_hidden_state.tolist()
    assert right.last_hidden_state[0, 2:].abs().max() > 1000
    assert token_states([2, 3], side="none").attention_mask is None


def test_an_encoder_is_built_around_a_pooler(tiny_encoder, sentences):
    encoder = tiny_encoder(pooler=classes.Good())
    assert encoder.encode(sentences[:3]).shape == (3, encoder.width)


def test_a_backbone_that_does_not_suit_the_pooler_fails_with_the_reason(tiny_encoder):
    plugins = installed()
    static = plugins.load("backbone", "static")(init="random")
    decoder = plugins.load("pooler", "decoder")()
    message = "the pooler `decoder` needs .*, and the backbone `static` has none"
    with pytest.raises(pytest.fail.Exception, match=message):
        tiny_encoder(backbone=static, pooler=decoder)


CALLS = [
    "component_rules(type('Nothing', (), {}))",
    "component_rules(Schedule, kind='no such kind')",
    "component_rules(Schedule, kind='schedule')['name']()",
    "plugin_rules('no-such-plugin')",
]


def test_what_fails_shows_the_users_test_and_not_the_kits_source(
    tmp_path,
):
    head = (
        "from sentbed.protocols import Schedule\n"
        "from sentbed_testing import component_rules, plugin_rules\n"
    )
    tests = (
        f"\n\ndef test_{number}():\n    {call}\n" for number, call in enumerate(CALLS)
    )
    output = pytest_output(head + "".join(tests), tmp_path)
    assert f"{len(CALLS)} failed" in output
    assert [
        line[1:].strip() for line in output.splitlines() if line.startswith(">")
    ] == CALLS
    assert "raise " not in output
