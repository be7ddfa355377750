"""The importer `sentence-transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import ModelError
from sentbed.errors import listed
from sentbed.helpers import read_file
from sentbed.protocols import Importer, TextTask
from sentbed.tools import INSTRUCTION, MASK, TEXT, Prompt

from sentbed_interop.similarity_names import COSINE

if TYPE_CHECKING:
    from sentbed import Encoder
    from sentbed.protocols import TokenIds

NO_LIMIT = 10**6
"""Tokens above which a tokenizer's limit means that it has none."""
SETTINGS = "config_sentence_transformers.json"
"""File of a folder with its prompts and its similarity."""
LONGEST_PROMPT = 10_000
"""Largest number of characters of a prompt, which is encoded with every text."""

_PLACES = (TEXT, MASK, INSTRUCTION, "*sent_0*")
"""Placeholders of a template; in a prompt of sentence-transformers they are plain text."""

SUPPORTED = (
    "__version__",
    "default_prompt_name",
    "model_type",
    "prompts",
    "requirements",
    "similarity_fn_name",
)
"""Settings of a folder that are supported, or that do not change vectors."""


@attrs.frozen(kw_only=True)
class FromSentenceTransformers(Importer):
    """A folder of sentence-transformers, of any version, with modules that an encoder supports.

    These are `Transformer` (on text) and `Pooling` (in a mode of an installed pooler, such as `cls`, `mean`
    and `lasttoken`), or `StaticEmbedding` in place of both, then optionally `Dense` without activation (the
    projection) and `Normalize`; after `cls` also a square `Dense` with tanh (`cls-mlp`). Weights are loaded
    in fp32, whatever the files have. Prompt and `max_length` of a folder that `sentbed export` wrote are
    those of the exported encoder.

    The folder's default prompt becomes the template, and its other prompts become `task_prompts`: `query`,
    `document` (or `passage`) and MTEB's tasks. `sentbed import` lists prompts that cannot be templates. A
    template is stripped of white space at both ends after the text is filled in, so texts that are empty or
    end in white space have other vectors under a prompt. Truncated texts may keep a token more or less under
    the default prompt.
    """

    name: ClassVar[str] = "sentence-transformers"

    prompt: str | None = None
    """Name of the folder's prompt that precedes each text, such as `query`; default: the folder's default."""
    max_length: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Tokens of an input, with prompt and special tokens; default: the folder's limit."""

    def recognises(self, source: Path) -> bool:
        """Whether it has a `modules.json`."""
        return (source / "modules.json").is_file()

    def read(self, source: Path) -> Encoder:
        """Return the encoder.

        Raises:
            ModelError: if an encoder does not support a module or a setting, with what to do; if files are
                missing or pickled.
        """
        from sentbed_interop._torch.importer_common import (
            backbone_for,
            encoder_of,
            read_json,
            read_setting,
            set_linear,
        )
        from sentbed_interop._torch.sentence_transformers_modules import (
            dense_weights,
            read_modules,
            settings_of,
        )
        from sentbed_interop._torch.static_embedding import longest_text

        modules = read_modules(source)
        prompts, default = self._prompts(source)
        prompt = _default_prompt(source, prompts, default, modules)
        model = modules.transformer
        settings: Mapping[str, Any] = {}
        config: Mapping[str, Any] = {}
        backbone = "static"
        if not modules.static:
            settings, config = settings_of(model), read_json(model / "config.json")
            backbone = backbone_for(config, model)
        _require_right(model)

        backbone_table = {"use": backbone, "model": str(model.resolve())}
        if _is_bidirectional_decoder(backbone, config):
            backbone_table["attention"] = "bidirectional"
        table: dict[str, Any] = {
            "backbone": backbone_table,
            "pooler": {"use": modules.pooler},
            "head": _head(modules),
            # Replaced below: the length left beside the prompt can only be computed with the tokenizer.
            "max_length": 2,
        }
        if prompt:
            table["prompt"] = {"template": f"{prompt}{{text}}"}
        similarity = self._similarity(source)
        if similarity is not None:
            table["similarity"] = similarity
        record = _prompt_record(source)
        if record is None:
            encoder = encoder_of(table, source)
        else:
            encoder = _with_record(table | record, source, model)

        if read_setting(settings, "do_lower_case", bool, model):
            _require_lowercase(encoder, model)
        if record is None or self.max_length:
            limit = self.max_length
            if limit is None and modules.static:
                limit = longest_text(model, encoder.backbone.max_length)
            elif limit is None:
                limit = _limit(settings, config, model)
            max_length = _left_for_sentence(encoder, limit, source)
            encoder.recipe = attrs.evolve(encoder.recipe, max_length=max_length)
        if modules.include_prompt:
            # Only now `max_length` is right, and the prompts have to leave tokens of it for texts.
            _set_task_prompts(encoder, _task_prompts(prompts, default))

        module: Any = encoder.placed.module
        if modules.mlp is not None:
            set_linear(module.pooler.dense, *dense_weights(modules.mlp.directory))
        linears = [
            part for part in module.projection.modules() if hasattr(part, "in_features")
        ]
        for linear, dense in zip(linears, modules.dense, strict=True):
            set_linear(linear, *dense_weights(dense.directory))
        encoder.placed.weights_changed()  # type: ignore[attr-defined]
        return encoder

    def notes(self, source: Path) -> Iterator[str]:
        """Yield which prompts of the folder are left out, and why."""
        from sentbed_interop._torch.sentence_transformers_modules import read_modules

        prompts, default = self._prompts(source)
        if read_modules(source).include_prompt:
            reasons = _left_out(prompts, default)
        else:
            reason = "`Pooling` leaves prompts out of the mean (`include_prompt`)"
            reasons = {name: reason for name, prompt in prompts.items() if prompt}
        for name, reason in reasons.items():
            yield (
                f"the prompt `{name}` of `{source}` is left out: {reason}; where it matters, put it before "
                "the texts yourself"
            )

    def _prompts(self, source: Path) -> tuple[dict[str, Any], str | None]:
        """Return the folder's prompts by name, and the name of the default prompt, or None."""
        from sentbed_interop._torch.importer_common import (
            read_json,
            read_setting,
            require_supported,
        )

        file = source / SETTINGS
        config = {}
        if file.is_file():
            config = read_json(file)
        kind = read_setting(config, "model_type", str, file, "SentenceTransformer")
        if kind != "SentenceTransformer":
            raise ModelError(
                f"`{source}` is a `{kind}`, which gives no vector a sentence as an encoder does; "
                "import a `SentenceTransformer`"
            )
        require_supported(config, SUPPORTED, file)
        prompts = read_setting(config, "prompts", dict, file) or {}
        return prompts, self.prompt or read_setting(
            config, "default_prompt_name", str, file
        )

    def _similarity(self, source: Path) -> str | None:
        """Return the name of the folder's similarity, which is the same here; None for the cosine."""
        from sentbed_interop._torch.importer_common import read_json, read_setting

        file = source / SETTINGS
        if not file.is_file():
            return None
        name = read_setting(read_json(file), "similarity_fn_name", str, file)
        if name is None or name == COSINE:
            return None
        return str(name)


def _default_prompt(
    source: Path, prompts: Mapping[str, Any], name: str | None, modules: Any
) -> str:
    """Return the default prompt, which may be empty. Raises `ModelError` if it cannot be a template."""
    from sentbed_interop._torch.importer_common import read_setting

    if name is None:
        return ""
    if name not in prompts:
        choices = listed(sorted(prompts)) or "none"
        raise ModelError(
            f"`{source}` has no prompt `{name}`; choose among its prompts ({choices}): `--set prompt=NAME`"
        )
    prompt: str = read_setting(prompts, name, str, source / SETTINGS) or ""
    if len(prompt) > LONGEST_PROMPT:
        raise ModelError(
            f"the prompt `{name}` of `{source}` has {len(prompt):,} characters, and at most "
            f"{LONGEST_PROMPT:,} are taken; choose another (`--set prompt=NAME`)"
        )
    if prompt and not modules.include_prompt:
        raise ModelError(
            f"`{source}` leaves the prompt `{name}` out of pooling (`include_prompt = false`), which no "
            'pooler does; take a prompt that is empty (`--set prompt=NAME`), or set "include_prompt" to '
            "true in the folder of `Pooling` and train again"
        )
    if prompt != prompt.lstrip():
        raise ModelError(
            f"the prompt {prompt!r} of `{source}` begins with white space, which an encoder's template "
            f"loses; take it out in `{SETTINGS}` if the tokenizer does not see it"
        )
    return prompt


def _task_prompts(prompts: Mapping[str, Any], default: str | None) -> dict[str, Prompt]:
    """Return the prompts for queries, documents and tasks, which replace the default prompt."""
    by_name = dict(prompts)
    passage = by_name.pop("passage", None)
    by_name.setdefault("document", passage)

    left_out = _left_out(prompts, default)
    task_prompts = {}
    for name, prompt in by_name.items():
        if prompt and name != default and name not in left_out:
            task_prompts[name] = Prompt(f"{prompt}{{text}}")
    if default is None:
        return task_prompts
    for side in ("query", "document"):
        # Texts of a side without a prompt get none in sentence-transformers, not even the default.
        if side != default and not by_name.get(side):
            task_prompts[side] = Prompt("{text}")
    return task_prompts


def _left_out(prompts: Mapping[str, Any], default: str | None) -> dict[str, str]:
    """Return the names of the prompts that `_task_prompts` leaves out -> the reasons."""
    reasons = {}
    names: dict[str, str] = {}
    for name, prompt in prompts.items():
        if not prompt or name == default:
            continue
        first = names.setdefault(name.lower(), name)
        reason = _why_no_template(prompt)
        if not reason and first != name:
            reason = f"an encoder takes it for `{first}`"
        elif not reason and name == "passage" and "document" in prompts:
            reason = "documents have the prompt `document`"
        if reason:
            reasons[name] = reason
    return reasons


def _why_no_template(prompt: Any) -> str:
    """Return why a prompt cannot be the beginning of a template; empty if it can."""
    if not isinstance(prompt, str):
        return "it is no text"
    if len(prompt) > LONGEST_PROMPT:
        return f"it has {len(prompt):,} characters, and at most {LONGEST_PROMPT:,} are taken"
    if prompt != prompt.lstrip():
        return "it begins with white space, which a template loses"
    for place in _PLACES:
        if place in prompt:
            return f"it has `{place}`, which means something in a template"
    return ""


def _set_task_prompts(encoder: Encoder, task_prompts: Mapping[str, Prompt]) -> None:
    """Set an encoder's prompts for tasks. Raises `ModelError` if one leaves no tokens for texts."""
    if not task_prompts:
        return
    encoder.recipe = attrs.evolve(encoder.recipe, task_prompts=task_prompts)
    for key in task_prompts:
        encoder.for_task(TextTask(key))


def _head(modules: Any) -> dict[str, Any]:
    """Return the head's table for these modules."""
    head: dict[str, Any] = {"normalize": modules.normalize}
    if modules.dense:
        *hidden, last = modules.dense
        head |= {"projection": last.width, "bias": last.bias}
        if hidden:
            head |= {
                "hidden": [layer.width for layer in hidden],
                "activation": modules.activation,
            }
    return head


def _prompt_record(source: Path) -> dict[str, Any] | None:
    """Return the record of the prompt that `sentbed export` wrote; None if there is none.

    Raises:
        ModelError: if the folder's tokenizer has a prompt in it, and the record is missing.
    """
    from sentbed_interop._torch.importer_common import read_json
    from sentbed_interop._torch.sentence_transformers_names import (
        OWN,
        OWN_FILE,
        PREFIX,
        SUFFIX,
    )

    file = source / OWN / OWN_FILE
    if file.is_file():
        record = dict(read_json(file))
        if unknown := sorted(record.keys() - {"pooler", "prompt", "max_length"}):
            raise ModelError(
                f"`{file}` has `{unknown[0]}`, which `sentbed export` does not write; copy the directory "
                "again from the folder that it wrote, or do not trust it"
            )
        return record

    tokenizer = source / "tokenizer.json"
    if not tokenizer.is_file():
        return None
    post_processor = read_json(tokenizer).get("post_processor")
    if isinstance(post_processor, dict) and {PREFIX, SUFFIX} & set(
        post_processor.get("special_tokens") or ()
    ):
        raise ModelError(
            f"the tokenizer of `{source}` has a prompt in it, and `{OWN}/{OWN_FILE}`, which says which, is "
            "not there; copy the directory from the folder that `sentbed export` wrote"
        )
    return None


def _with_record(table: dict[str, Any], source: Path, model: Path) -> Encoder:
    """Build an encoder with its recorded prompt, from a copy of the folder whose tokenizer lacks the prompt."""
    import tempfile

    from sentbed_interop._torch.importer_common import LARGEST_JSON, encoder_of
    from sentbed_interop._torch.sentence_transformers_names import OWN, TOKENIZER

    place = table["backbone"]["model"]
    with tempfile.TemporaryDirectory() as copy:
        for file in model.iterdir():
            if file.is_file() and file.name not in TOKENIZER:
                (Path(copy) / file.name).symlink_to(file.resolve())
        for name in TOKENIZER:
            if (source / OWN / name).exists():
                content = read_file(source / OWN / name, LARGEST_JSON)
                (Path(copy) / name).write_bytes(content)
        backbone_of_copy = {**table["backbone"], "model": copy}
        encoder = encoder_of({**table, "backbone": backbone_of_copy}, source)

    backbone = attrs.evolve(encoder.recipe.backbone, model=place)  # type: ignore[misc]
    encoder.recipe = attrs.evolve(encoder.recipe, backbone=backbone)
    return encoder


def _require_right(model: Path) -> None:
    """Raise `ModelError` for a tokenizer that truncates texts at the left."""
    from sentbed_interop._torch.importer_common import read_json, read_setting

    config_file, whole_file = model / "tokenizer_config.json", model / "tokenizer.json"
    file = config_file
    side = None
    if config_file.is_file():
        side = read_setting(read_json(config_file), "truncation_side", str, config_file)
    if side is None and whole_file.is_file():
        file = whole_file
        truncation = (
            read_setting(read_json(whole_file), "truncation", dict, whole_file) or {}
        )
        side = read_setting(truncation, "direction", str, whole_file)
    if side is not None and side.lower() != "right":
        raise ModelError(
            f"`{file}` cuts long texts at the {side.lower()} (`truncation_side`), and an encoder cuts them "
            'at the right; set it to "right" where the vectors of long texts do not matter'
        )


def _is_bidirectional_decoder(backbone: str, config: Mapping[str, Any]) -> bool:
    """Whether a model is a decoder whose attention has been made bidirectional."""
    if backbone not in ("causal", "opt"):
        return False
    if config.get("is_causal") is False:
        return True

    return config.get("use_bidirectional_attention") in (True, "all")


def _require_lowercase(encoder: Encoder, model: Path) -> None:
    """Raise `ModelError` if the tokenizer does not lower-case, as the settings require."""
    tokenizer = encoder.backbone.tokenizer
    mixed = tokenizer.encode(["The CAT"], 99).ids
    lower = tokenizer.encode(["the cat"], 99).ids
    if list(mixed) != list(lower):
        raise ModelError(
            f"`{model}` says `do_lower_case`, and its tokenizer does not do so by itself; give its "
            "`tokenizer.json` the normalizer `Lowercase`, save it, and import again"
        )


def _limit(settings: Mapping[str, Any], config: Mapping[str, Any], model: Path) -> int:
    """Return the tokens of the longest input. Raises `ModelError` if no file says it."""
    from sentbed_interop._torch.importer_common import read_setting

    limit: float | None = read_setting(settings, "max_seq_length", int, model)
    if limit is None:
        limit = _tokenizer_limit(model)
        positions = read_setting(
            config, "max_position_embeddings", int, model / "config.json"
        )
        if positions is not None and positions > 0:
            limit = min(limit, positions)
    if not 2 <= limit < NO_LIMIT:
        raise ModelError(
            f"`{model}` does not say at how many tokens a text is cut; say it: `--set max_length=256`"
        )
    return int(limit)


def _tokenizer_limit(model: Path) -> float:
    """Return the tokenizer's limit of tokens, or `NO_LIMIT` if it has none."""
    from sentbed_interop._torch.importer_common import read_json, read_setting

    file = model / "tokenizer_config.json"
    if not file.is_file():
        return NO_LIMIT
    config = read_json(file)
    limit: float | None = config.get("model_max_length")
    # A tokenizer without a limit has a huge one, which some files write as 1e30.
    if not isinstance(limit, float):
        limit = read_setting(config, "model_max_length", int, file)
    return limit or NO_LIMIT


def _left_for_sentence(encoder: Encoder, limit: int, source: Path) -> int:
    """Return the tokens left for a sentence, given the limit of an input with prompt."""
    from sentbed_interop._torch.sentence_transformers_tokenizer import SENTENCES

    longest = encoder.backbone.max_length
    limit = min(limit, longest)
    prompt, tokenizer = encoder.recipe.resolved_prompt, encoder.backbone.tokenizer
    if prompt is None:
        return limit
    # Around an empty text, the prompt may have other tokens.
    with_prompt = int(encoder.tokenizer().encode(["a"], 99).lengths[0])
    template = with_prompt - _own_tokens(encoder, "a")
    if template + 2 > limit:
        raise ModelError(
            f"the prompt of `{source}` has {template} tokens, and an input {limit}: too few are left "
            "for a sentence; set a larger `max_length`"
        )

    texts = [" ".join([text] * limit) for text in SENTENCES]
    prefixed = [prompt.template.prefix + text for text in texts]
    expected = tokenizer.encode(prefixed, limit)
    # A text's first word may have more tokens alone than after the prompt.
    best_length, most_equal = 0, -1
    for change in (0, 1, -1, 2, -2, 3):
        length = limit - template + change
        if length < 2 or length + template > longest:
            continue
        equal = _equal_rows(encoder.tokenizer().encode(texts, length), expected)
        if equal > most_equal:
            best_length, most_equal = length, equal

    return best_length


def _own_tokens(encoder: Encoder, text: str) -> int:
    """Return the tokens of a text without special tokens and prompt."""
    lengths = encoder.backbone.tokenizer.encode([text, ""], 99).lengths
    return int(lengths[0] - lengths[1])


def _equal_rows(tokens: TokenIds, expected: TokenIds) -> int:
    """Return the number of texts with equal tokens."""
    equal = 0
    for row in range(len(expected)):
        if _row(tokens, row) == _row(expected, row):
            equal += 1
    return equal


def _row(tokens: TokenIds, row: int) -> list[int]:
    start, end = tokens.offsets[row : row + 2]
    ids: list[int] = tokens.ids[start:end].tolist()
    return ids
