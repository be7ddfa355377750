"""The class `Encoder`, with which users load, build, apply, evaluate and save sentence encoders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sentbed._document.structuring import unstructure
from sentbed._encoder.batching import Progress, encode, require_texts
from sentbed._encoder.evaluated_encoder import EvaluatedEncoder
from sentbed._encoder.prompt_tokenizer import PromptTokenizer
from sentbed._encoder.saved_encoder import (
    BACKBONE,
    ENCODER_FILE,
    encoder_table,
    saved_recipe,
)
from sentbed._files import write_atomic, write_directory
from sentbed._recipe.component_compatibility import (
    misfits,
    misfits_within,
    name_at_test,
    runtime_misfits,
)
from sentbed._recipe.load import component_of, part_of
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._toml import Document, dotted
from sentbed.errors import (
    ModelError,
    Problem,
    RecipeError,
    RunError,
    SentbedError,
)
from sentbed.protocols import (
    ANY_TASK,
    SHORTEST,
    BuildContext,
    BuiltBackbone,
    Encoded,
    EncoderRecipe,
    Engine,
    Evaluation,
    Evaluator,
    Output,
    PartProgress,
    PlacedEncoder,
    Preparation,
    Prepared,
    ResolvedPrompt,
    Runtime,
    Score,
    Similarity,
    TextEncoder,
    TextTask,
    Tokenizer,
    VectorStore,
)


@attrs.define(eq=False, repr=False)
class Encoder(TextEncoder):
    """A sentence encoder: computes vectors of sentences."""

    recipe: EncoderRecipe
    engine: Engine
    backbone: BuiltBackbone
    placed: PlacedEncoder
    """The encoder's backbone, pooler and head on the device of the engine."""
    source: Path | None = None
    """Directory from which the encoder was loaded; None if it was built."""
    fit_texts: Sequence[str] = ()
    """Texts on whose vectors the head's transform is fitted."""
    counts_prompt: bool = False
    """Whether `max_length` of the recipe includes the tokens of the prompt; see `for_task`."""

    @classmethod
    def build(
        cls,
        recipe: EncoderRecipe,
        engine: Engine,
        texts: Callable[[], Iterable[str]] = tuple,
        saved: Path | None = None,
        head_seed: int | None = None,
    ) -> Encoder:
        """Load or initialise the encoder of a recipe on an engine.

        Args:
            recipe: The encoder's part of a recipe.
            engine: Engine on whose device the encoder is placed.
            texts: Returns the training texts, for training a tokenizer.
            saved: Directory of a saved encoder, from which weights and tokenizer are loaded. If it is None, the
                backbone loads or initialises them.
            head_seed: Seed to set before pooler and head are initialised, so that they do not depend on the
                random numbers that the backbone has drawn. If it is None, no seed is set.

        Raises:
            ModelError: if files are missing, or sentences and prompts are too long for the backbone.
        """
        recipe = self_contained(recipe)
        context = BuildContext(
            texts,
            needs=recipe.needs,
            template=recipe.template,
        )
        if saved is not None:
            context = attrs.evolve(context, saved=saved / BACKBONE)
        backbone = recipe.backbone.build(context)

        if head_seed is not None:
            engine.seed(head_seed)
        placed = engine.assemble(backbone, recipe.pooler, recipe.head, saved)
        encoder = cls(recipe, engine, backbone, placed)

        encoder.require_positions(recipe.max_length)
        for prompt in (recipe.task_prompts or {}).values():
            prompt_of_task = prompt.for_task(TextTask(instruction=" "))
            encoder._require_room(recipe.resolved(prompt_of_task))

        transform = recipe.head.transform
        if saved is None and transform is not None:
            encoder.fit_texts = transform.texts(placed.transformed().width)
        return encoder

    def fit_transform(self) -> Encoder:
        """Fit the transform of the head, if there is one, to vectors of the current weights.

        Return this encoder.
        """
        transform = self.recipe.head.transform
        if transform is None:
            return self

        untransformed = self.placed.transformed()
        encoder = attrs.evolve(self, placed=untransformed)
        vectors = encoder.encode(self.fit_texts)

        fitted_on = {}
        if len(vectors):
            digest = hashlib.sha256(json.dumps(self.fit_texts).encode()).hexdigest()
            fitted_on = {"texts": len(vectors), "data": digest}
        fit = transform.fit(vectors, self.backbone)
        self.placed = untransformed.transformed(fit, fitted_on)
        return self

    @classmethod
    def load(
        cls,
        path: str | Path,
        runtime: Runtime | Mapping[str, Any] | str | None = None,
        plugins: Plugins | None = None,
        *,
        trust_remote_code: bool = False,
    ) -> Encoder:
        """Load an encoder that `save` or a run has written.

        Args:
            path: Directory of the encoder.
            runtime: A runtime, its name, or its table in a recipe; by default `{"use": "cpu"}`, with float32.
            plugins: Installed plugins; they are loaded by default.
            trust_remote_code: Whether Python code that comes with the model may run, whatever the directory says.

        Raises:
            ModelError: if the directory is not an encoder, files are missing, it would run code without
                `trust_remote_code`, or it cannot run on the runtime. Libraries raise their own errors for
                damaged files.
        """
        directory = Path(path)
        plugins = plugins or load_plugins()
        recipe = saved_recipe(directory, plugins, trust_remote_code)
        runtime = runtime_of(runtime, plugins)
        for message in runtime_misfits(runtime, recipe):
            raise ModelError(message)
        try:
            encoder = cls.build(recipe, engine_of(runtime), saved=directory)
        except Exception as error:
            error.add_note(f"while loading the encoder in `{path}`")
            raise
        if recipe.head.transform is not None and encoder.placed.fitted_on is None:
            raise ModelError(
                f"the encoder in `{path}` was saved before its transform was fitted; finish its run "
                "(`sentbed run RECIPE --resume DIR`), or name the encoder of a run that has finished"
            )
        return attrs.evolve(encoder, source=directory)

    @classmethod
    def of(
        cls,
        table: Mapping[str, Any],
        runtime: Runtime | Mapping[str, Any] | str | None = None,
        plugins: Plugins | None = None,
    ) -> Encoder:
        """Build an encoder from a table like `[encoder]` in a recipe: `{"backbone": {"use": "bert", ...}, ...}`.

        Relative paths are relative to the current directory. `runtime` is as for `load`.

        Raises:
            RecipeError: if the table has problems. The error lists all of them.
        """
        plugins = plugins or load_plugins()
        document = Document.of(table)
        recipe = part_of(document, EncoderRecipe, plugins)
        problems = []
        for path, message in misfits(recipe):
            problems.append(Problem(message, dotted(path)))
        if problems:
            raise RecipeError(problems)

        runtime = runtime_of(runtime, plugins)
        for message in runtime_misfits(runtime, recipe):
            raise RecipeError([Problem(message, "runtime")])
        return cls.build(recipe, engine_of(runtime)).fit_transform()

    def __repr__(self) -> str:
        """Return one line: recipes and engines fill a screen."""
        recipe = self.recipe
        return (
            f"<Encoder {recipe.backbone.name}, {recipe.pooler.name}: {self.width} dimensions, "
            f"at most {recipe.max_length} tokens, on {self.engine.device}>"
        )

    @property
    def width(self) -> int:
        """Dimension of a sentence vector, or of a token vector."""
        return self.placed.width

    @property
    def device(self) -> str:
        """Device of the engine, such as `cpu` or `cuda:0`."""
        return str(self.engine.device)

    @property
    def machine(self) -> Mapping[str, Any]:
        """Description of the engine: device, threads, precision."""
        return self.engine.describe()

    @property
    def output(self) -> Output:  # type: ignore[override]  # that of the pooler, and read only
        """What the encoder computes for a text: `vector`, `tokens` or `sparse`."""
        return self.recipe.pooler.output

    @property
    def similarity(self) -> Similarity | None:  # type: ignore[override]  # as `output`
        """Similarity for comparing the encoder's texts; None for the cosine."""
        return self.recipe.similarity

    def require_positions(self, max_length: int) -> None:
        """Raise `ModelError` if the backbone has too few positions for `max_length` tokens and the template."""
        positions = self.backbone.max_length
        for prompt in self.recipe.resolved_prompts:
            template_tokens = 0
            times = 1
            around = ""
            if prompt is not None and not self.counts_prompt:
                template_tokens = self._tokens_around_text(prompt)
                around = f", and the template around a sentence has {template_tokens}"
            if prompt is not None and prompt.template.between is not None:
                times = 2
                around += " and repeats it"
            if max_length * times + template_tokens > positions:
                raise ModelError(
                    f"`max_length` is {max_length}{around}; the backbone has positions for {positions} "
                    f"tokens, set `max_length` to {(positions - template_tokens) // times} or less"
                )

    def tokenizer(self, normalize: bool = True) -> Tokenizer:
        """Return the tokenizer of the backbone, or one that also puts texts into the prompt.

        With `normalize`, the text rules of the prompt (`prompt.normalizer`) change each text first; for example,
        they add a full stop. Raises `SentbedError` if there are several prompts.
        """
        return self._tokenizer_of(self.recipe.resolved_prompt, normalize)

    def tokenizers(self, normalize: bool = True) -> list[Tokenizer]:
        """Return a tokenizer for each prompt; see `tokenizer`."""
        prompts = self.recipe.resolved_prompts
        return [self._tokenizer_of(prompt, normalize) for prompt in prompts]

    def _tokenizer_of(
        self, prompt: ResolvedPrompt | None, normalize: bool = True
    ) -> Tokenizer:
        """Return the tokenizer of the backbone, or one that also puts texts into a prompt."""
        tokenizer = self.backbone.tokenizer
        if prompt is None:
            return tokenizer
        longest = self.backbone.max_length
        return PromptTokenizer(
            tokenizer, prompt, longest, normalize, self.counts_prompt
        )

    def _tokens_around_text(self, prompt: ResolvedPrompt) -> int:
        """Return the number of tokens of a prompt without a text, including special tokens."""
        tokens = self._tokenizer_of(prompt).encode([""], SHORTEST)
        return int(tokens.lengths[0])

    def for_task(self, task: TextTask) -> Encoder:
        """Return the encoder with its prompt for the texts of a task.

        If it is a prompt of `task_prompts`, prompt and text are truncated together, as in sentence-transformers.
        Together, they may have `max_length` tokens. If the encoder also has a `prompt`, which the task's prompt
        replaces, they may have its number of tokens in addition.

        Raises:
            SentbedError: if the prompt needs an instruction, but the task has none.
            ModelError: if the prompt leaves no tokens for a text.
        """
        if not self.recipe.task_prompts:
            return self
        recipe = self.recipe.for_task(task)
        if recipe.prompt is self.recipe.prompt:
            return attrs.evolve(self, recipe=recipe)
        self._require_room(recipe.resolved_prompt)
        longest = self._longest_input()
        return attrs.evolve(
            self,
            recipe=attrs.evolve(recipe, max_length=longest),
            counts_prompt=recipe.resolved_prompt is not None,
        )

    def _longest_input(self) -> int:
        """Return how many tokens a prompt of `task_prompts` and its text may have together."""
        longest = self.recipe.max_length
        prompt = self.recipe.resolved_prompt
        if prompt is not None:
            longest += self._tokens_around_text(prompt)
        return min(longest, self.backbone.max_length)

    def _require_room(self, prompt: ResolvedPrompt | None) -> None:
        """Raise `ModelError` if a prompt of `task_prompts` leaves no tokens for a text."""
        if prompt is None:
            return
        longest = self._longest_input()
        around = self._tokens_around_text(prompt)
        if around + SHORTEST > longest:
            raise ModelError(
                f"the prompt {str(prompt.template)!r} of `task_prompts` has {around} tokens, and an input has "
                f"up to {longest}: too few are left for a text; raise `max_length`, or shorten the prompt"
            )

    def prompt_facts(self) -> dict[str, Any]:
        """Return the entries of a task's prompt in a score's protocol; empty if the encoder has no prompt."""
        prompt = self.recipe.resolved_prompt
        if prompt is None:
            return {}
        facts = prompt.describe()
        if self.counts_prompt:
            facts["max_length_with_prompt"] = self.recipe.max_length
        return facts

    def protocol(self) -> dict[str, Any]:
        """Return the encoder's part of a score's protocol: how vectors are computed from texts."""
        pooler = self.recipe.pooler
        pooler_facts = {"train": pooler.name, "test": name_at_test(pooler)}
        pooler_facts |= unstructure(pooler)
        del pooler_facts["use"]
        facts: dict[str, Any] = {
            "precision": self.engine.describe()["precision"],
            "pooler": pooler_facts,
            "max_length": self.recipe.max_length,
        }
        facts |= self.backbone.protocol
        facts |= self.placed.protocol

        if self.placed.fitted_on is not None:
            transform_facts = {}
            for key, value in unstructure(self.recipe.head.transform).items():
                if not isinstance(value, Mapping):
                    transform_facts[key] = value
            facts["transform"] = transform_facts | dict(self.placed.fitted_on)
        similarity = self.similarity
        if similarity is not None and similarity.formula != "cosine":
            facts["similarity"] = unstructure(similarity)

        prompts = []
        for prompt in self.recipe.resolved_prompts:
            if prompt is not None:
                prompts.append(prompt.describe())
        if prompts:
            facts["prompt"] = prompts[0] if len(prompts) == 1 else prompts
        return facts

    def encode(
        self,
        texts: Sequence[str],
        task: TextTask = ANY_TASK,
        *,
        progress: Progress | None = None,
        max_length: int | None = None,
        normalize: bool = True,
    ) -> Encoded:
        """Return one vector per text, float32 `(len(texts), width)`, in the order of `texts`.

        If `output` is `tokens`, return a list of each text's token vectors, `(tokens, width)`.

        Args:
            texts: The texts.
            task: What the texts are for. They get the prompt of `task_prompts` for it, if there is one.
            progress: Called with the number of texts that were encoded since its last call. With several
                prompts, there is a pass for each of them, and only the last pass is reported.
            max_length: Maximum number of tokens of a text; by default that of the recipe.
            normalize: Whether the text rules of the prompt (`prompt.normalizer`) change each text before it is
                encoded. This has nothing to do with the length of vectors.

        Raises:
            SentbedError: if `texts` is no list of strings, or `max_length` is too small or above the backbone's
                positions.
        """
        require_texts(texts)
        encoder = self.for_task(task)
        if max_length is None:
            max_length = encoder.recipe.max_length
        elif max_length < SHORTEST:
            raise SentbedError(
                f"`max_length` is {max_length}; give at least {SHORTEST} tokens"
            )
        elif max_length > encoder.recipe.max_length:
            encoder.require_positions(max_length)

        tokenizers = encoder.tokenizers(normalize)
        total: Any = None
        for tokenizer in tokenizers:
            reported = progress if tokenizer is tokenizers[-1] else None
            vectors = encode(
                texts,
                tokenizer,
                self.placed,
                max_length,
                self.engine.token_budget,
                reported,
                by_token=self.output == "tokens",
            )
            if total is None:
                total = vectors
            else:
                total += vectors

        if len(tokenizers) > 1:
            total /= len(tokenizers)
        return total

    def prompt_for(self, task: TextTask) -> object:
        """Return the prompts that the texts of a task get."""
        return self.recipe.for_task(task).prompts

    @property
    def unwrapped(self) -> Encoder:
        """The encoder itself."""
        return self

    def evaluate(
        self,
        evaluator: Evaluator,
        name: str,
        second: tuple[str, Encoder] | None = None,
        progress: PartProgress | None = None,
        store: VectorStore | None = None,
        plugins: Plugins | None = None,
        *,
        prepared: Preparation | None = None,
    ) -> Evaluation:
        """Evaluate the encoder. Set the names of encoder, evaluator and plugin in the scores, and their protocol.

        Args:
            evaluator: The evaluator.
            name: Name of this encoder in the scores.
            second: Name of another encoder, and this encoder, which encodes the second sentences of pairs. Only
                evaluators that are `two_sided` use one.
            progress: Called with the progress of each part of the evaluation.
            store: Store from which vectors are taken instead of computing them again; scores do not change.
            plugins: Installed plugins, among which that of the evaluator is found; they are loaded by default.
            prepared: Result of `evaluator.prepare()`, if it was called before.
        """
        info = (plugins or load_plugins()).origin(type(evaluator))
        for _, message in misfits_within(evaluator, Evaluator, self.recipe):
            raise RunError(message)
        if prepared is None:
            prepared = evaluator.prepare()

        first_encoder = EvaluatedEncoder(self, evaluator.name, progress, store)
        second_encoder = None
        protocol = self.protocol()
        second_protocol: dict[str, Any] = {}
        if second is not None:
            second_name, encoder = second
            second_encoder = attrs.evolve(first_encoder, encoder=encoder)
            second_protocol = {"encoder": second_name, **encoder.protocol()}

        if isinstance(prepared, Prepared):
            evaluation = prepared.evaluate(first_encoder, second_encoder)
        else:
            evaluation = prepared.evaluate(first_encoder)

        release = "" if info is None else info.release
        scores = []
        for score in evaluation.scores:
            encoder_protocol = {**protocol, **first_encoder.prompt_facts(score)}
            if second_encoder is not None:
                second_facts = second_encoder.prompt_facts(score)
                encoder_protocol["second"] = {**second_protocol, **second_facts}
            scores.append(_completed(score, name, evaluator, release, encoder_protocol))

        primary = float(evaluation.primary)
        return attrs.evolve(evaluation, scores=tuple(scores), primary=primary)

    def save(self, path: str | Path) -> None:
        """Write the encoder's weights, its tokenizer and its part of the recipe to a directory, atomically.

        The directory may exist if it is empty or a saved encoder, which is then replaced.

        Raises:
            RunError: if the directory has something else, or cannot be written.
        """
        import tomli_w

        target = Path(path).resolve()
        is_empty = target.is_dir() and not any(target.iterdir())
        is_encoder = (target / ENCODER_FILE).is_file()
        if target.exists() and not is_empty and not is_encoder:
            raise RunError(
                f"`{path}` holds something that is not an encoder; choose another place, or move it away"
            )

        def fill(directory: Path) -> None:
            self.placed.save(directory)
            table = encoder_table(self.recipe)
            write_atomic(directory / ENCODER_FILE, tomli_w.dumps(table))

        write_directory(target, fill)

    def restore(self, path: Path) -> None:
        """Replace the weights by those that `save` has written to `path`."""
        other = Encoder.build(self.recipe, self.engine, saved=path)
        self.backbone, self.placed = other.backbone, other.placed


def _completed(
    score: Score,
    name: str,
    evaluator: Evaluator,
    release: str,
    encoder_protocol: Mapping[str, Any],
) -> Score:
    """Return an evaluator's score with the names of encoder, evaluator and plugin, and the encoder's protocol."""
    return attrs.evolve(
        score,
        value=float(score.value),
        encoder=name,
        evaluator=evaluator.name,
        plugin=release,
        protocol={"encoder": encoder_protocol, "evaluator": score.protocol},
    )


def pair_name(name: str, second: str | None) -> str:
    """Return the name that a pair of encoders has in scores, such as `en+zh` for `en` and `zh`.

    If `second` is None, there is no pair, and the name of the encoder is returned.
    """
    if second is None:
        return name
    return f"{name}+{second}"


def self_contained(recipe: EncoderRecipe) -> EncoderRecipe:
    """Return the recipe with the text of each template instead of the name of its file, for saving."""
    task_prompts = None
    if recipe.task_prompts is not None:
        task_prompts = {}
        for key, of_task in recipe.task_prompts.items():
            task_prompts[key] = of_task.self_contained()

    prompt = recipe.prompt
    if isinstance(prompt, tuple):
        prompt = tuple(each.self_contained() for each in prompt)
    elif prompt is not None:
        prompt = prompt.self_contained()
    return attrs.evolve(recipe, prompt=prompt, task_prompts=task_prompts)


def runtime_of(
    runtime: Runtime | Mapping[str, Any] | str | None, plugins: Plugins
) -> Runtime:
    """Return the runtime that a name or a table describes; None means `cpu`. A runtime is returned unchanged."""
    if isinstance(runtime, Runtime):
        return runtime
    table = runtime or "cpu"
    if isinstance(table, str):
        table = {"use": table}
    return component_of(Runtime, table, plugins, "runtime")


def engine_of(
    runtime: Runtime | Mapping[str, Any] | str | None, plugins: Plugins | None = None
) -> Engine:
    """Return the engine of a runtime, or of the one that a name or a table describes; None means `cpu`."""
    if not isinstance(runtime, Runtime):
        runtime = runtime_of(runtime, plugins or load_plugins())
    return runtime.build()
