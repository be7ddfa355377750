from __future__ import annotations

import attrs
import pytest
from sentbed import RecipeError, load_recipe
from sentbed._recipe.component_compatibility import misfits
from sentbed._registry.offers import Offer
from sentbed.protocols import Backbone, EncoderRecipe, Head, Pooler
from sentbed_poolers.template_prompt import Demonstration, TemplatePrompt
from toy_plugin import RECIPE


def part(name, base, **properties):
    """Make a component class that says this of itself."""
    body = {"name": name, "build": print, **properties}
    class_name = name.replace("-", "_")
    return attrs.make_class(class_name, {}, bases=(base,), frozen=True, class_body=body)


def backbone(name, *offers):
    return part(name, Backbone, offers=frozenset(offers))


def pooler(name, *needs, **prompt):
    return part(name, Pooler, needs=frozenset(needs), **prompt)


BACKBONES = [
    backbone("masked", "bidirectional", "mask-token", "layers"),
    backbone("left-to-right", "causal", "layers"),
    backbone("two-part", "bidirectional", "decoder"),
    backbone("bare"),
]
POOLERS = [
    pooler("start", "bidirectional"),
    pooler("end"),
    pooler("word", "causal", "template", prompt=TemplatePrompt("prompt-eol")),
    pooler("asked", "causal", "template"),
    pooler("blank", "mask-token", "template", prompt=TemplatePrompt("prompt-bert")),
    pooler("hole", "mask-token"),
    pooler("answer", "decoder"),
    pooler("depth", "layers", "bidirectional"),
    pooler("odd", "telepathy", "causal"),
]


def offering(plugins, backbones, poolers):
    """Return the plugins with these parts beside theirs."""
    offers = dict(plugins.offers)
    for cls in backbones:
        offer = Offer("backbone", cls.name, cls, "parts", "1.0")
        offers["backbone", cls.name] = [offer]
    for cls in poolers:
        offer = Offer("pooler", cls.name, cls, "parts", "1.0")
        offers["pooler", cls.name] = [offer]
    return attrs.evolve(plugins, offers=offers)


@pytest.fixture
def parts(plugins):
    """The toy plugin, whose parts say nothing, and parts that say what they need and offer."""
    return offering(plugins, BACKBONES, POOLERS)


def encoder_of(parts, backbone, pooler, prompt=None):
    return EncoderRecipe(
        parts.load("backbone", backbone)(),
        parts.load("pooler", pooler)(),
        prompt=prompt,
    )


def misfits_of(parts, backbone, pooler, prompt=None):
    """Return key and message of each misfit."""
    problems = []
    for (key,), message in misfits(encoder_of(parts, backbone, pooler, prompt)):
        problems.append((key, message))
    return problems


@pytest.fixture
def denoising(parts):
    """Those parts, and a pair that subtracts the state of the template alone."""
    need = ("mask-token", "template-alone")
    cleaned = pooler("cleaned", *need, "template", prompt=TemplatePrompt("prompt-bert"))
    return offering(parts, [backbone("clean", *need)], [cleaned])


def test_a_pooler_that_subtracts_the_template_alone_takes_one_prompt(denoising):
    assert misfits_of(denoising, "clean", "cleaned") == []
    prompts = (TemplatePrompt(), TemplatePrompt(template="a {text} b{mask}"))
    encoder = attrs.evolve(encoder_of(denoising, "clean", "cleaned"), prompt=prompts)
    ((key, message),) = misfits(encoder)
    assert key == ("prompt",)
    assert message.startswith(
        "the pooler `cleaned` subtracts the state of one template, and there are 2"
    )
    assert encoder.template is None


def test_the_template_that_a_backbone_is_built_with_is_that_of_the_only_prompt(
    denoising,
):
    assert encoder_of(denoising, "clean", "cleaned").template == (
        'This sentence of "',
        '" means{mask}.',
    )
    encoder = encoder_of(
        denoising, "clean", "cleaned", TemplatePrompt(template="a {text} b{mask}")
    )
    assert encoder.template == ("a ", " b{mask}")
    assert encoder_of(denoising, "bare", "end").template is None
    assert (
        encoder_of(
            denoising, "bare", "end", TemplatePrompt(template="{text} again {text}")
        ).template
        is None
    )


# --- needs and offers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backbone", "pooler"),
    [
        ("masked", "start"),
        ("masked", "blank"),
        ("left-to-right", "word"),
        ("two-part", "answer"),
        ("bare", "end"),
        ("characters", "odd"),
    ],
)
def test_of_parts_that_fit_or_do_not_say_nothing_is_said(parts, backbone, pooler):
    assert misfits_of(parts, backbone, pooler) == []


@pytest.mark.parametrize(
    ("backbone", "pooler", "words"),
    [
        ("left-to-right", "start", "needs attention in both directions"),
        ("masked", "answer", "needs a decoder that reads the encoded text"),
        ("bare", "blank", "needs a mask token in the vocabulary"),
        ("two-part", "depth", "needs the states of every layer"),
        ("masked", "word", "needs causal attention"),
        ("masked", "odd", "next word is predicted) and `telepathy`"),
    ],
)
def test_an_impossible_pair_is_a_sentence_with_the_reason(
    parts, backbone, pooler, words
):
    ((key, message),) = misfits_of(parts, backbone, pooler)
    assert key == "pooler"
    assert words in message
    assert f"the backbone `{backbone}` has none; choose another" in message


@pytest.mark.parametrize("pretrained", [True, False])
def test_a_pooler_takes_its_weights_from_a_model_that_has_some(parts, pretrained):
    loads = part("loads", Pooler, pretrained=True)
    model = part("model", Backbone, pretrained=pretrained)
    problems = dict(misfits(EncoderRecipe(model(), loads())))
    assert set(problems) == (set() if pretrained else {("pooler",)})


@pytest.mark.parametrize("projection", [None, 8])
def test_a_projection_is_refused_where_the_pooler_computes_something_else_at_test(
    parts, projection
):
    trained_on = part("mlp", Pooler, at_test="bare")
    head = Head(projection=projection)
    problems = dict(misfits(EncoderRecipe(BACKBONES[0](), trained_on(), head)))
    assert set(problems) == (set() if projection is None else {("head",)})


def test_a_prompt_is_not_judged_where_the_parts_do_not_fit(parts):
    ((key, _),) = misfits_of(
        parts, "left-to-right", "start", TemplatePrompt("nonsense")
    )
    assert key == "pooler"


# --- templates and masks -----------------------------------------------------------------------------------


def test_a_pooler_that_needs_a_template_and_has_none_says_how_to_add_one(parts):
    assert misfits_of(parts, "left-to-right", "asked") == [
        (
            "pooler",
            'the pooler `asked` needs a template; add `prompt = { template = "..." }` with `{text}` where '
            "the sentence goes",
        )
    ]
    assert (
        misfits_of(parts, "left-to-right", "asked", TemplatePrompt('{text} is "')) == []
    )
    assert misfits_of(parts, "left-to-right", "word") == []


def test_a_mask_pooler_needs_a_template(parts):
    ((key, message),) = misfits_of(parts, "masked", "hole")
    assert (key, message.partition(";")[0]) == (
        "pooler",
        "the pooler `hole` needs a template",
    )
    assert misfits_of(parts, "masked", "hole", TemplatePrompt("prompt-bert")) == []


def test_a_mask_pooler_needs_a_mask_in_the_template(parts):
    message = (
        "the pooler `blank` reads the mask token, and the template '<{text}>' has none; "
        "write `{mask}` in it, behind `{text}`"
    )
    assert misfits_of(parts, "masked", "blank", TemplatePrompt("<{text}>")) == [
        ("prompt", message)
    ]
    for template in ("<{text}> is {mask}", "prompt-bert"):
        assert misfits_of(parts, "masked", "blank", TemplatePrompt(template)) == []


def test_a_mask_in_the_template_needs_one_in_the_vocabulary(parts):
    message = (
        "the template '{text} is {mask}' has a `{mask}`, and the backbone `left-to-right` has no mask token; "
        "take it out"
    )
    assert misfits_of(
        parts, "left-to-right", "end", TemplatePrompt("{text} is {mask}")
    ) == [("prompt", message)]
    assert misfits_of(parts, "masked", "end", TemplatePrompt("{text} is {mask}")) == []
    assert (
        misfits_of(parts, "characters", "end", TemplatePrompt("{text} is {mask}")) == []
    )


# --- prompts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (
            TemplatePrompt("promt-eol"),
            "there is no template `promt-eol`. Did you mean `prompt-eol`?",
        ),
        (TemplatePrompt("no place"), "has 0 places for the sentence"),
        (
            TemplatePrompt(file="pkg:sentbed/none.txt"),
            "`pkg:sentbed/none.txt` does not exist",
        ),
        (
            TemplatePrompt(demonstration=Demonstration("a", "b")),
            "has a demonstration but no template",
        ),
        (TemplatePrompt(normalizer="prompt-eol"), "has text rules but no template"),
        (
            TemplatePrompt("prompt", demonstration=Demonstration("a", "b")),
            "cannot take a demonstration",
        ),
    ],
)
def test_a_fault_of_the_prompt_is_told_once_under_its_key(parts, prompt, message):
    ((key, problem),) = misfits_of(parts, "characters", "end", prompt)
    assert key == "prompt"
    assert message in problem


def test_a_demonstration_can_stand_in_the_template_of_the_pooler(parts):
    shown = TemplatePrompt(demonstration=Demonstration("a", "b"))
    assert misfits_of(parts, "left-to-right", "word", shown) == []
    ((key, message),) = misfits_of(parts, "masked", "blank", shown)
    assert key == "prompt"
    assert "cannot take a demonstration" in message


@pytest.mark.parametrize(
    ("pooler", "prompt", "path", "start", "message"),
    [
        (
            "end",
            'prompt = { template = "promt" }',
            "encoder.prompt",
            "prompt",
            "Did you mean `prompt`?",
        ),
        (
            "end",
            '[encoder.prompt]\ntemplate = "a"',
            "encoder.prompt",
            "[encoder.prompt]",
            "no template `a`",
        ),
        (
            "end",
            "prompt = { tempate = 1 }",
            "encoder.prompt.tempate",
            "prompt",
            "unknown key `tempate`",
        ),
        (
            "end",
            "prompt = { line = 0 }",
            "encoder.prompt.line",
            "prompt",
            "must be >= 1: 0",
        ),
        (
            "end",
            'prompt = { normalizer = "eol" }',
            "encoder.prompt.normalizer",
            "prompt",
            "found 'eol'",
        ),
        (
            "end",
            "[encoder.prompt]\nline = 1.5",
            "encoder.prompt.line",
            "line",
            "expected a whole number",
        ),
        (
            "end",
            '[encoder.prompt.demonstration]\ntext = "a"',
            "encoder.prompt.demonstration",
            "[encoder.prompt.demonstration]",
            "the required key `word` is missing",
        ),
        (
            "end",
            'prompt = { file = "none.txt" }',
            "encoder.prompt",
            "prompt",
            "none.txt` does not exist",
        ),
        ("asked", "", "encoder.pooler", "pooler", "needs a template"),
        ("start", "", "encoder.pooler", "pooler", "needs attention in both directions"),
        (
            "asked",
            'prompt = { template = "{text}{mask}" }',
            "encoder.prompt",
            "prompt",
            "has no mask token",
        ),
    ],
)
def test_a_recipe_reports_what_does_not_fit_at_its_path_and_line(
    pooler, prompt, path, start, message, put, parts
):
    text = RECIPE.replace("[[stage]]", prompt + "\n\n[[stage]]")
    text = text.replace('"characters", width = 4', '"left-to-right"').replace(
        '"average"', f'"{pooler}"'
    )
    file = put("r.toml", text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(file, plugins=parts)
    (problem,) = caught.value.problems
    assert (problem.path, problem.file) == (path, str(file))
    assert text.splitlines()[problem.line - 1].startswith(start)
    assert message in problem.message


def test_each_of_several_encoders_is_judged_under_its_own_name(put, parts):
    text = RECIPE.replace("[encoder]", "[encoders.one]") + (
        '\n[encoders.two]\nbackbone = { use = "left-to-right" }\npooler = { use = "start" }\n'
        '\n[encoders.three]\nbackbone = { use = "masked" }\npooler = { use = "blank" }\n'
        'prompt = { template = "{text}" }\n'
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(
            put("r.toml", text), ["stage.0.train=one", "evaluate.0.encoder=one"], parts
        )
    assert [problem.path for problem in caught.value.problems] == [
        "encoders.two.pooler",
        "encoders.three.prompt",
    ]


def test_a_file_of_templates_is_looked_for_beside_the_recipe(put, parts):
    put("templates/t.txt", "*sent_0*\n<*sent_0*>\n")
    text = RECIPE.replace(
        "[[stage]]", 'prompt = { file = "templates/t.txt", line = 2 }\n\n[[stage]]'
    )
    resolved = (
        load_recipe(put("r.toml", text), plugins=parts)
        .encoders["encoder"]
        .resolved_prompt
    )
    assert str(resolved.template) == "<{text}>"


# --- what a prompt asks of the backbone --------------------------------------------------------------------


def test_a_sentence_may_stand_twice_where_the_backbone_can_hide_the_first(parts):
    hiding = backbone("hiding", "bidirectional", "span")
    parts = offering(parts, [hiding], [])
    prompt = TemplatePrompt(template="{text} {text}")
    assert misfits_of(parts, "hiding", "end", prompt) == []
    ((key, message),) = misfits_of(parts, "left-to-right", "end", prompt)
    assert key == "prompt"
    assert "`left-to-right` cannot hide the first; write `{text}` once" in message


@pytest.mark.parametrize("reads", ["answer", "first"])
def test_a_pooler_of_one_fixed_state_does_not_take_a_sentence_twice(parts, reads):
    hiding = backbone("hiding", "decoder", "span")
    first = part("first", Pooler, pooling="cls")
    ((_, message),) = misfits_of(
        offering(parts, [hiding], [first]),
        "hiding",
        reads,
        TemplatePrompt("{text} {text}"),
    )
    assert (
        f"the pooler `{reads}` reads a single state that says nothing of it; use a pooler"
        in message
    )


def test_a_prompt_chooses_layers_only_of_a_backbone_that_lets_it(parts):
    ((key, message),) = misfits_of(
        parts, "bare", "end", TemplatePrompt("{text}", layers=(1,))
    )
    assert (key, message) == (
        "prompt",
        "the backbone `bare` lets no prompt choose `layers`; take them out",
    )
