"""The importer `sentence-transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import ModelError, RunError
from sentbed.errors import listed
from sentbed.helpers import read_json
from sentbed.protocols import (
    INSTRUCTION,
    MASK,
    TEXT,
    Importer,
    Prompt,
    TextTask,
)
from sentbed.tools import component_of, load_plugins

from sentbed_interop.exportable_encoders import library_problems
from sentbed_interop.similarity_names import COSINE

if TYPE_CHECKING:
    from sentbed import Encoder

NO_LIMIT = 10**6
"""Number of tokens. A tokenizer whose limit is this number or more counts as a tokenizer without a limit."""

SETTINGS = "config_sentence_transformers.json"
"""File with a folder's prompts and its similarity."""

DOCUMENTS = ("document", "passage", "corpus")
"""Names of a prompt for documents; of several, sentence-transformers takes the first."""

_PLACES = (TEXT, MASK, INSTRUCTION, "*sent_0*")
"""Placeholders of a template. In a prompt of sentence-transformers, they are plain text."""


@attrs.frozen(kw_only=True)
class FromSentenceTransformers(Importer):
    """A folder of sentence-transformers, of any version, with modules that an encoder supports.

    sentence-transformers loads it. Supported are `Transformer` (on text) and `Pooling` (in one of the modes
    `cls`, `lasttoken`, `max`, `mean` and `weightedmean`), or `StaticEmbedding` in place of both. `Dense` layers
    may follow, of which the last has no activation (the head's hidden layers and its projection), then
    `Normalize`. After `cls`, the first `Dense` may be square with tanh (pooler `cls-mlp`). Weights are loaded in
    fp32, whatever the precision of the files. The vectors of a few texts are compared with the library's: a
    difference of more than 1e-4 of the largest value is an error.

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

    def check(self) -> Iterator[str]:
        """Yield a message if the library is missing."""
        yield from library_problems("importer")

    def read(self, source: Path) -> Encoder:
        """Return an encoder with the folder's modules, prompts and limit of tokens.

        Raises:
            RunError: if the library is missing.
            ModelError: if an encoder does not support a module or a prompt, if the library cannot load the
                folder, or if it gives other vectors; the message says what to do.
        """
        for problem in self.check():
            raise RunError(problem)
        from sentbed_interop._torch.encoder_of_modules import (
            encoder_of,
            require_same_vectors,
            set_dense_weights,
            tokens_left_for_sentence,
        )
        from sentbed_interop._torch.sentence_transformers_modules import (
            load_model,
            modules_of,
        )

        prompts, default, similarity = self._settings(source)
        # The library loads no folder whose default prompt is missing.
        prompt = _default_prompt(source, prompts, default)
        model = load_model(source)
        modules = modules_of(model, source)
        if any(prompts.values()) and not modules.include_prompt:
            raise ModelError(
                f"`{source}` leaves its prompts out of pooling (`include_prompt = false`), which no pooler does; "
                f"take the prompts out of `{SETTINGS}`, or train again with prompts that are pooled"
            )

        encoder = encoder_of(modules, source, prompt, similarity)
        limit = self.max_length or modules.limit
        if not 2 <= limit < NO_LIMIT and not modules.static:
            raise ModelError(
                f"`{source}` does not say at how many tokens texts are truncated; set it, as in "
                "`--set max_length=256`"
            )
        max_length = tokens_left_for_sentence(encoder, limit, source)
        encoder.recipe = attrs.evolve(encoder.recipe, max_length=max_length)
        # This follows the setting of `max_length`, since a prompt must leave some of these tokens for texts.
        _set_task_prompts(encoder, _task_prompts(prompts, default))
        set_dense_weights(encoder, modules)
        require_same_vectors(encoder, model, source, default)
        return encoder

    def notes(self, source: Path) -> Iterator[str]:
        """Yield a sentence on each prompt of the folder that the encoder lacks."""
        prompts, default, _ = self._settings(source)
        for name, prompt in prompts.items():
            reason = _why_no_template(prompt)
            if _is_second_of_documents(name, prompts):
                reason = "documents have another prompt of the folder"
            if prompt and name != default and reason:
                yield (
                    f"the prompt `{name}` of `{source}` is left out: {reason}; if it matters, put it before "
                    "the texts yourself"
                )

    def _settings(self, source: Path) -> tuple[dict[str, Any], str | None, str]:
        """Return the prompts by name, the name of the default prompt (None without one), and the similarity.

        Raises:
            ModelError: if the folder is no `SentenceTransformer`, or if it shortens vectors.
        """
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
        if config.get("truncate_dim"):
            raise ModelError(
                f"`{file}` has `truncate_dim` = {config['truncate_dim']}, which no encoder reads; remove it, and "
                "set `dimensions` of the head of the imported encoder"
            )
        prompts = config.get("prompts") or {}
        name = self.prompt or config.get("default_prompt_name")
        # sentbed has the same names of similarities.
        return prompts, name, config.get("similarity_fn_name") or COSINE


def _default_prompt(
    source: Path,
    prompts: Mapping[str, Any],
    name: str | None,
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
    reason = _why_no_template(prompt)
    if reason:
        raise ModelError(
            f"the prompt `{name}` of `{source}` cannot begin a template: {reason}; choose another "
            f"(`--set prompt=NAME`), or change it in `{SETTINGS}`"
        )
    return prompt


def _task_prompts(prompts: Mapping[str, Any], default: str | None) -> dict[str, Prompt]:
    """Return the prompts for queries, documents and tasks, each of which replaces the default prompt."""
    templates: dict[str, str] = {}
    if default is not None:
        # In sentence-transformers, queries (or documents) without a prompt do not get the default prompt either.
        templates = {"query": TEXT, "document": TEXT}
        templates.pop(_key(default), None)
    for name, prompt in prompts.items():
        if not prompt or name == default or _why_no_template(prompt):
            continue
        if not _is_second_of_documents(name, prompts):
            templates[_key(name)] = f"{prompt}{TEXT}"

    plugins = load_plugins()
    task_prompts = {}
    for key, template in templates.items():
        table = {"template": template}
        task_prompts[key] = component_of(Prompt, table, plugins, "prompt")
    return task_prompts


def _is_second_of_documents(name: str, prompts: Mapping[str, Any]) -> bool:
    """Whether a prompt is one for documents, and the folder has another that comes before it."""
    of_documents = [key for key in DOCUMENTS if key in prompts]
    return name in of_documents[1:]


def _key(name: str) -> str:
    """Return the key in `task_prompts` of a prompt of the folder."""
    if name in DOCUMENTS:
        return "document"
    return name


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
