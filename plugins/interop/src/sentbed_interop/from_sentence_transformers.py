"""The importer `sentence-transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import ModelError
from sentbed.errors import listed
from sentbed.helpers import read_json
from sentbed.protocols import (
    INSTRUCTION,
    MASK,
    TEXT,
    Importer,
    Prompt,
    TextTask,
    TokenIds,
)
from sentbed.tools import component_of, load_plugins

from sentbed_interop.similarity_names import COSINE

if TYPE_CHECKING:
    from sentbed import Encoder

NO_LIMIT = 10**6
"""Number of tokens. A tokenizer whose limit is this number or more counts as a tokenizer without a limit."""

SETTINGS = "config_sentence_transformers.json"
"""File with a folder's prompts and its similarity."""

DOCUMENTS = ("document", "passage", "corpus")
"""Names of a prompt for documents, the preferred one first.

sentence-transformers 6 uses the later ones only if they are named, since its models always have `document`.
"""

_PLACES = (TEXT, MASK, INSTRUCTION, "*sent_0*")
"""Placeholders of a template. In a prompt of sentence-transformers, they are plain text."""

SUPPORTED = (
    "__version__",
    "default_prompt_name",
    "model_type",
    "prompts",
    "requirements",
    "similarity_fn_name",
)
"""Settings in the file `SETTINGS` that are read, or that do not change vectors."""


@attrs.frozen(kw_only=True)
class FromSentenceTransformers(Importer):
    """A folder of sentence-transformers, of any version, with modules that an encoder supports.

    Supported are `Transformer` (on text) and `Pooling` (in a mode of an installed pooler, such as `cls`, `mean`
    and `lasttoken`), or `StaticEmbedding` in place of both. `Dense` layers may follow, of which the last has no
    activation (the head's hidden layers and its projection), then `Normalize`. After `cls`, the first `Dense`
    may be square with tanh (pooler `cls-mlp`). Weights are loaded in fp32, whatever the precision of the files.

    The folder's default prompt becomes the template, and its other prompts become `task_prompts`: `query`,
    `document` (or `passage`, or `corpus`) and MTEB's tasks. `sentbed import` lists the prompts that are left out.

    Under a prompt, texts that are empty or end in white space get other vectors than in sentence-transformers,
    since a filled template is stripped of white space at both ends. Under the default prompt, truncated texts may
    have a token more or less.
    """

    name: ClassVar[str] = "sentence-transformers"

    prompt: str | None = None
    """Name of the folder's prompt that precedes each text, such as `query`. By default, its default prompt."""
    max_length: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Largest number of tokens of an input, with prompt and special tokens. By default, the folder's limit."""

    def read(self, source: Path) -> Encoder:
        """Return an encoder with the folder's modules, prompts and limit of tokens.

        Raises:
            ModelError: if an encoder does not support a module or a setting, or if files are missing or pickled;
                the message says what to do.
        """
        from sentbed_interop._torch.importer_common import (
            backbone_for,
            encoder_of,
        )
        from sentbed_interop._torch.sentence_transformers_modules import (
            read_modules,
            settings_of,
        )
        from sentbed_interop._torch.static_embedding import longest_text

        modules = read_modules(source)
        prompts, default, similarity = self._settings(source)
        prompt = _default_prompt(source, prompts, default, modules)
        model = modules.transformer
        settings: Mapping[str, Any] = {}
        config: Mapping[str, Any] = {}
        backbone = "static"
        if not modules.static:
            settings, config = settings_of(model), read_json(model / "config.json")
            backbone = backbone_for(config, model)
        _require_right_truncation(model)

        table: dict[str, Any] = {
            "backbone": {"use": backbone, "model": str(model.resolve())},
            "pooler": {"use": modules.pooler},
            "head": _head(modules),
            # The real value is set below. Only the tokenizer tells how many tokens the prompt leaves for a text.
            "max_length": 2,
        }
        if _is_bidirectional_decoder(backbone, config):
            table["backbone"]["attention"] = "bidirectional"
        if prompt:
            table["prompt"] = {"template": f"{prompt}{{text}}"}
        if similarity != COSINE:
            table["similarity"] = similarity
        encoder = encoder_of(table, source)

        if settings.get("do_lower_case"):
            _require_lowercase(encoder, model)
        limit = self.max_length
        if limit is None and modules.static:
            limit = longest_text(model, encoder.backbone.max_length)
        elif limit is None:
            limit = _limit(settings, config, model)
        max_length = _tokens_left_for_sentence(encoder, limit, source)
        encoder.recipe = attrs.evolve(encoder.recipe, max_length=max_length)
        if modules.include_prompt:
            # This follows the setting of `max_length`, since a prompt must leave some of these tokens for texts.
            _set_task_prompts(encoder, _task_prompts(prompts, default))

        _set_dense_weights(encoder, modules)
        return encoder

    def notes(self, source: Path) -> Iterator[str]:
        """Yield a sentence on each prompt of the folder that the encoder lacks."""
        from sentbed_interop._torch.sentence_transformers_modules import read_modules

        prompts, default, _ = self._settings(source)
        if read_modules(source).include_prompt:
            reasons = _left_out(prompts, default)
        else:
            reason = "`Pooling` leaves prompts out of the mean (`include_prompt`)"
            reasons = {name: reason for name, prompt in prompts.items() if prompt}
        for name, reason in reasons.items():
            yield (
                f"the prompt `{name}` of `{source}` is left out: {reason}; if it matters, put it before "
                "the texts yourself"
            )

    def _settings(self, source: Path) -> tuple[dict[str, Any], str | None, str]:
        """Return the prompts by name, the name of the default prompt (None without one), and the similarity.

        Raises:
            ModelError: if the folder is no `SentenceTransformer`, or has settings that are not supported.
        """
        from sentbed_interop._torch.importer_common import (
            require_supported,
        )

        file = source / SETTINGS
        config = {}
        if file.is_file():
            config = read_json(file)

        kind = config.get("model_type") or "SentenceTransformer"
        if kind != "SentenceTransformer":
            raise ModelError(
                f"`{source}` is a `{kind}`, which does not give one vector per sentence as an encoder does; "
                "import a `SentenceTransformer`"
            )
        require_supported(config, SUPPORTED, file)
        prompts = config.get("prompts") or {}
        name = self.prompt or config.get("default_prompt_name")
        # sentbed has the same names of similarities.
        return prompts, name, config.get("similarity_fn_name") or COSINE


def _default_prompt(
    source: Path,
    prompts: Mapping[str, Any],
    name: str | None,
    modules: Any,
) -> str:
    """Return the text of the default prompt, which is called `name`. It is empty if `name` is None.

    Raises:
        ModelError: if the folder lacks the prompt, or if it cannot begin a template.
    """
    if name is None:
        return ""
    if name not in prompts:
        choices = listed(sorted(prompts)) or "none"
        raise ModelError(
            f"`{source}` has no prompt `{name}`; choose among its prompts ({choices}): `--set prompt=NAME`"
        )
    prompt: str = prompts[name] or ""
    if prompt and not modules.include_prompt:
        raise ModelError(
            f"`{source}` leaves the prompt `{name}` out of pooling (`include_prompt = false`), which no "
            'pooler does; take a prompt that is empty (`--set prompt=NAME`), or set "include_prompt" to '
            "true in the folder of `Pooling` and train again"
        )
    reason = _why_no_template(prompt)
    if reason:
        raise ModelError(
            f"the prompt `{name}` of `{source}` cannot begin a template: {reason}; choose another "
            f"(`--set prompt=NAME`), or change it in `{SETTINGS}`"
        )
    return prompt


def _task_prompts(prompts: Mapping[str, Any], default: str | None) -> dict[str, Prompt]:
    """Return the prompts for queries, documents and tasks, each of which replaces the default prompt."""
    left_out = _left_out(prompts, default)
    documents = _name_of_documents(prompts)
    task_prompts = {}
    for name, prompt in prompts.items():
        key = name
        if name == documents:
            key = "document"
        if prompt and key != default and name not in left_out:
            task_prompts[key] = _template(f"{prompt}{TEXT}")
    if default is None:
        return task_prompts
    # `Query` is the prompt of queries, too, since names of tasks do not distinguish case.
    names = set(map(str.lower, task_prompts))
    for side in ("query", "document"):
        # In sentence-transformers, queries (or documents) without a prompt do not get the default prompt either.
        if side != default and side not in names:
            task_prompts[side] = _template(TEXT)
    return task_prompts


def _template(text: str) -> Prompt:
    """Return the prompt with this template."""
    return component_of(Prompt, {"template": text}, load_plugins(), "prompt")


def _name_of_documents(prompts: Mapping[str, Any]) -> str | None:
    """Return the name of the prompt that documents have; None without one."""
    return next((name for name in DOCUMENTS if name in prompts), None)


def _left_out(prompts: Mapping[str, Any], default: str | None) -> dict[str, str]:
    """Return the prompts that `_task_prompts` leaves out: name -> reason."""
    reasons = {}
    documents = _name_of_documents(prompts)
    # Name in lower case -> first name, since names of tasks do not distinguish case.
    names: dict[str, str] = {}
    for name, prompt in prompts.items():
        if not prompt or name == default:
            continue

        first = names.setdefault(name.lower(), name)
        reason = _why_no_template(prompt)
        if not reason and first != name:
            reason = f"an encoder does not distinguish it from `{first}`"
        elif not reason and name in DOCUMENTS and name != documents:
            reason = f"documents have the prompt `{documents}`"
        if reason:
            reasons[name] = reason
    return reasons


def _why_no_template(prompt: Any) -> str:
    """Return why a prompt cannot be the beginning of a template; empty if it can."""
    if not isinstance(prompt, str):
        return "it is no text"
    if prompt != prompt.lstrip():
        return "it begins with white space, which a template loses"
    for place in _PLACES:
        if place in prompt:
            return f"it has `{place}`, which is a placeholder in a template"
    return ""


def _set_task_prompts(encoder: Encoder, task_prompts: Mapping[str, Prompt]) -> None:
    """Set an encoder's prompts for tasks. Raises `ModelError` if a prompt leaves no tokens for texts."""
    if not task_prompts:
        return
    encoder.recipe = attrs.evolve(encoder.recipe, task_prompts=task_prompts)
    for key in task_prompts:
        # This raises an error if the prompt is too long.
        encoder.for_task(TextTask(key))


def _head(modules: Any) -> dict[str, Any]:
    """Return the table of a head with the layers and the normalisation of these modules."""
    head: dict[str, Any] = {"normalize": modules.normalize}
    if not modules.dense:
        return head

    *hidden, last = modules.dense
    head |= {"projection": last.width, "bias": last.bias}
    if hidden:
        head["hidden"] = [layer.width for layer in hidden]
        head["activation"] = modules.activation
    return head


def _set_dense_weights(encoder: Encoder, modules: Any) -> None:
    """Set the weights of the encoder's pooler and head to those of the folder's `Dense` modules."""
    from sentbed_interop._torch.importer_common import set_linear
    from sentbed_interop._torch.sentence_transformers_modules import dense_weights

    module: Any = encoder.placed.module
    if modules.mlp is not None:
        set_linear(module.pooler.dense, dense_weights(modules.mlp.directory))
    linears = [
        part for part in module.projection.modules() if hasattr(part, "in_features")
    ]
    for linear, dense in zip(linears, modules.dense, strict=True):
        set_linear(linear, dense_weights(dense.directory))
    encoder.placed.weights_changed()  # type: ignore[attr-defined]


def _require_right_truncation(model: Path) -> None:
    """Raise `ModelError` if the tokenizer truncates texts at the left."""
    config_file, whole_file = model / "tokenizer_config.json", model / "tokenizer.json"
    file = config_file
    side = None
    if config_file.is_file():
        side = read_json(config_file).get("truncation_side")
    if side is None and whole_file.is_file():
        file = whole_file
        content = read_json(whole_file)
        truncation = content.get("truncation") or {}
        side = truncation.get("direction")

    if side is not None and side.lower() != "right":
        raise ModelError(
            f"`{file}` cuts long texts at the {side.lower()} (`truncation_side`), and an encoder cuts them "
            'at the right; set it to "right" if the vectors of long texts do not matter'
        )


def _is_bidirectional_decoder(backbone: str, config: Mapping[str, Any]) -> bool:
    """Whether a model is a decoder whose attention has been made bidirectional."""
    if backbone not in ("causal", "opt"):
        return False
    if config.get("is_causal") is False:
        return True
    return config.get("use_bidirectional_attention") in (True, "all")


def _require_lowercase(encoder: Encoder, model: Path) -> None:
    """Raise `ModelError` if the tokenizer does not convert texts to lower case, as the settings require."""
    tokenizer = encoder.backbone.tokenizer
    mixed = tokenizer.encode(["The CAT"], 99).ids
    lower = tokenizer.encode(["the cat"], 99).ids
    if list(mixed) != list(lower):
        raise ModelError(
            f"`{model}` says `do_lower_case`, and its tokenizer does not do so by itself; give its "
            "`tokenizer.json` the normalizer `Lowercase`, save it, and import again"
        )


def _limit(
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    model: Path,
) -> int:
    """Return the largest number of tokens of an input. Raises `ModelError` if no file has it."""
    limit: float | None = settings.get("max_seq_length")
    if limit is None:
        limit = _tokenizer_limit(model)
        positions = config.get("max_position_embeddings")
        if positions is not None and positions > 0:
            limit = min(limit, positions)

    if not 2 <= limit < NO_LIMIT:
        raise ModelError(
            f"`{model}` does not say at how many tokens texts are truncated; set it, as in `--set max_length=256`"
        )
    return int(limit)


def _tokenizer_limit(model: Path) -> float:
    """Return the tokenizer's limit of tokens; `NO_LIMIT` if its files have none."""
    file = model / "tokenizer_config.json"
    if not file.is_file():
        return NO_LIMIT
    config = read_json(file)
    # In files, a tokenizer without a limit has a huge one, such as 1e30.
    limit: float | None = config.get("model_max_length")
    return limit or NO_LIMIT


def _tokens_left_for_sentence(
    encoder: Encoder,
    limit: int,
    source: Path,
) -> int:
    """Return the number of tokens left for a sentence, if the input with the prompt has at most `limit` tokens.

    Neighbouring numbers are tried, too. The returned number is the one with which most of the long test texts are
    truncated as in sentence-transformers.

    Raises:
        ModelError: if the prompt leaves too few tokens.
    """
    from sentbed_interop._torch.compared_texts import SENTENCES

    longest = encoder.backbone.max_length
    limit = min(limit, longest)
    prompt, tokenizer = encoder.recipe.resolved_prompt, encoder.backbone.tokenizer
    if prompt is None:
        return limit

    # Measured with a text, since the prompt may have other tokens around an empty text. The limit of 99 tokens is
    # the text's own: it does not truncate the prompt.
    with_prompt = int(encoder.tokenizer().encode(["a"], 99).lengths[0])
    with_text, empty = tokenizer.encode(["a", ""], 99).lengths
    template = with_prompt - int(with_text - empty)
    if template + 2 > limit:
        raise ModelError(
            f"the prompt of `{source}` has {template} tokens, and an input has at most {limit}: too few are "
            "left for a sentence; set a larger `max_length`"
        )

    texts = [" ".join([text] * limit) for text in SENTENCES]
    prefixed = [prompt.template.prefix + text for text in texts]
    expected = _token_rows(tokenizer.encode(prefixed, limit))
    # A text's first word may have more tokens alone than after the prompt, so neighbouring lengths are tried.
    best_length, most_equal = 0, -1
    for change in (0, 1, -1, 2, -2, 3):
        length = limit - template + change
        if length < 2 or length + template > longest:
            continue
        rows = _token_rows(encoder.tokenizer().encode(texts, length))
        equal = list(map(eq, rows, expected)).count(True)
        if equal > most_equal:
            best_length, most_equal = length, equal
    return best_length


def _token_rows(tokens: TokenIds) -> list[list[int]]:
    """Return the token ids of each text."""
    bounds = tokens.offsets
    return [
        tokens.ids[bounds[row] : bounds[row + 1]].tolist() for row in range(len(tokens))
    ]
