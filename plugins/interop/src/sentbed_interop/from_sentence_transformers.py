"""The importer `sentence-transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import ModelError

if TYPE_CHECKING:
    from sentbed import Encoder

POOLERS: Mapping[str, str] = {"cls": "first", "mean": "mean", "lasttoken": "last"}
"""The pooler for each mode of pooling that has one."""
FLAGS: Mapping[str, str] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""How versions before 6 write the mode."""
NO_LIMIT = 10**6
"""Tokens: what a tokenizer says that knows no limit is more."""
ORDER = "`Transformer`, `Pooling`, `Dense`, `Normalize`"


@attrs.frozen(kw_only=True)
class FromSentenceTransformers:
    """A folder of sentence-transformers, of any version, whose modules an encoder has too.

    These are `Transformer` (on text), `Pooling` (`cls`, `mean` or `lasttoken`), then perhaps `Dense` without
    activation (the projection) and `Normalize`; after `cls` also a square `Dense` with tanh (`cls-mlp`). A
    folder's default prompt becomes the template. Weights are held in fp32, whatever the files have.
    """

    name: ClassVar[str] = "sentence-transformers"

    prompt: str | None = None
    """Which of the folder's prompts goes before each text, by name, such as `query`; the folder's default
    where left out. An encoder has one."""
    max_length: int | None = attrs.field(default=None, validator=optional(ge(2)))
    """Tokens of an input, prompt and special tokens included; that of the folder where left out."""

    def recognises(self, source: Path) -> bool:
        """Whether it has a `modules.json`."""
        return (source / "modules.json").is_file()

    def read(self, source: Path) -> Encoder:
        """Return the encoder.

        Raises:
            ModelError: which module or setting an encoder cannot have, and what to do; where files are
                missing or pickled.
        """
        from sentbed_interop._torch.importing import backbone_for, encoder_of, read_json, set_linear
        from sentbed_interop._torch.importing_modules import dense_weights, read_modules, settings_of

        modules = read_modules(source)
        prompt = self._prompt(source, modules)
        model = modules.transformer
        settings, config = settings_of(model), read_json(model / "config.json")
        backbone = backbone_for(config, model)
        _require_causal(backbone, config, model)
        head: dict[str, Any] = {"normalize": modules.normalize}
        if modules.projection is not None:
            head |= {"projection": modules.projection.width, "bias": modules.projection.bias}
        table: dict[str, Any] = {
            "backbone": {"use": backbone, "model": str(model.resolve())},
            "pooler": {"use": "cls-mlp" if modules.mlp else POOLERS[modules.mode]},
            "head": head,
            # What is left for it beside the prompt is known when there is a tokenizer.
            "max_length": 2,
        }
        if prompt:
            table["prompt"] = {"template": f"{prompt}{{text}}"}
        encoder = encoder_of(table, source)
        if settings.get("do_lower_case"):
            _require_lowercase(encoder, model)
        limit = self.max_length or _limit(settings, config, model)
        encoder.recipe = attrs.evolve(encoder.recipe, max_length=_left(encoder, limit, source))
        module: Any = encoder.placed.module  # type: ignore[attr-defined]  # the engine is that of `cpu`
        for dense, layer in ((modules.mlp, "pooler"), (modules.projection, "projection")):
            if dense is not None:
                linear = module.pooler.dense if layer == "pooler" else module.projection
                set_linear(linear, *dense_weights(dense.directory))
        encoder.placed.weights_changed()  # type: ignore[attr-defined]
        return encoder

    def _prompt(self, source: Path, modules: Any) -> str:
        """Return the text before each sentence, which may be empty."""
        from sentbed_interop._torch.importing import read_json

        file = source / "config_sentence_transformers.json"
        config = read_json(file) if file.is_file() else {}
        if (kind := config.get("model_type", "SentenceTransformer")) != "SentenceTransformer":
            raise ModelError(
                f"`{source}` is a `{kind}`, which gives no vector a sentence as an encoder does; "
                "import a `SentenceTransformer`"
            )
        prompts = config.get("prompts") or {}
        name = self.prompt or config.get("default_prompt_name")
        if name is None:
            return ""
        if name not in prompts:
            known = ", ".join(f"`{known}`" for known in sorted(prompts)) or "none"
            raise ModelError(
                f"`{source}` has no prompt `{name}`; choose among its prompts ({known}): `--set prompt=NAME`"
            )
        prompt = str(prompts[name] or "")
        if prompt and not modules.include_prompt:
            raise ModelError(
                f"`{source}` leaves the prompt `{name}` out of pooling (`include_prompt = false`), which no "
                'pooler does; take a prompt that is empty (`--set prompt=NAME`), or set "include_prompt" to '
                "true in the folder of `Pooling` and train again"
            )
        if prompt != prompt.lstrip():
            raise ModelError(
                f"the prompt {prompt!r} of `{source}` begins with white space, which an encoder's template "
                f"loses; take it out in `{file.name}` if the tokenizer does not see it"
            )
        return prompt


def _require_causal(backbone: str, config: Mapping[str, Any], model: Path) -> None:
    both = config.get("is_causal") is False or config.get("use_bidirectional_attention")
    if backbone in ("causal", "opt") and both:
        raise ModelError(
            f"the causal model in `{model}` is told to attend in both directions, which the backbone "
            f"`{backbone}` does not; a backbone plugin could (`sentbed new plugin backbone NAME`)"
        )


def _require_lowercase(encoder: Encoder, model: Path) -> None:
    mixed, lower = (encoder.backbone.tokenizer.encode([text], 99).ids for text in ("The CAT", "the cat"))
    if list(mixed) != list(lower):
        raise ModelError(
            f"`{model}` says `do_lower_case`, and its tokenizer does not do so by itself; give its "
            "`tokenizer.json` the normalizer `Lowercase`, save it, and import again"
        )


def _limit(settings: Mapping[str, Any], config: Mapping[str, Any], model: Path) -> int:
    """Return the tokens of the longest input."""
    from sentbed_interop._torch.importing import read_json

    limit = settings.get("max_seq_length")
    if limit is None:
        file = model / "tokenizer_config.json"
        said = read_json(file) if file.is_file() else {}
        positions = config.get("max_position_embeddings", -1)
        limit = min(said.get("model_max_length") or NO_LIMIT, positions if positions > 0 else NO_LIMIT)
    if not isinstance(limit, int | float) or not 2 <= limit < NO_LIMIT:
        raise ModelError(
            f"`{model}` does not say at how many tokens a text is cut; say it: `--set max_length=256`"
        )
    return int(limit)


def _left(encoder: Encoder, limit: int, source: Path) -> int:
    """Return the tokens that are left for a sentence, of so many for an input with prompt."""
    limit = min(limit, encoder.backbone.max_length)
    if encoder.recipe.resolved_prompt is None:
        return limit
    template = int(encoder.tokenizer().encode([""], 1).lengths[0])
    if template + 2 > limit:
        raise ModelError(
            f"the prompt of `{source}` has {template} tokens, and an input {limit}: too few are left "
            "for a sentence; set a larger `max_length`"
        )
    return limit - template
