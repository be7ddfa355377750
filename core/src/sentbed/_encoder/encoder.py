"""`Encoder`: the encoder for users, with `load`, `encode` and `save`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from sentbed._component_faults import number, returned, sentences
from sentbed._document.structuring import structure, unstructure
from sentbed._document.toml import Document, parse
from sentbed._encoder.batching import Progress, encode_into, encode_tokens
from sentbed._files import (
    SUMS_FILE,
    read_file,
    verified_sums,
    write_atomic,
    write_directory,
    write_sums,
)
from sentbed._recipe.component_compatibility import (
    misfits,
    name_at_test,
    runtime_misfits,
)
from sentbed._recipe.load import component_of
from sentbed._recipe.machine_settings import without_machine_settings
from sentbed._recipe.prompts import Prompt, PromptTokenizer
from sentbed._recipe.recipe import SCHEMA, SHORTEST, EncoderRecipe
from sentbed._registry.computing_code import components_of
from sentbed._registry.registry import Plugins, load_plugins
from sentbed.errors import (
    ModelError,
    NotFiniteError,
    Problem,
    RecipeError,
    RunError,
    SentbedError,
    printable,
)
from sentbed.protocols import (
    BuildContext,
    BuiltBackbone,
    Engine,
    Evaluation,
    Evaluator,
    Output,
    PartProgress,
    PlacedEncoder,
    Preparation,
    Prepared,
    RaggedVectors,
    Runtime,
    Score,
    Similarity,
    TextEncoder,
    TextTask,
    Tokenizer,
    VectorStore,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


BACKBONE = "backbone"
"""Subdirectory of the backbone in a saved encoder."""
DISTRIBUTIONS = "distributions"
"""Key in `encoder.toml`: distributions of the encoder's components -> versions."""
_ANY_SIDE = "text"
"""Key of the prompt for texts that are neither queries nor documents."""
ENCODER_FILE = "encoder.toml"
"""File in a saved encoder with its part of the recipe."""


@attrs.define(eq=False)
class Encoder:
    """A sentence encoder: maps sentences to vectors."""

    recipe: EncoderRecipe
    engine: Engine
    backbone: BuiltBackbone
    placed: PlacedEncoder
    source: Path | None = None
    """Directory that the encoder was loaded from."""
    fit_texts: Sequence[str] = ()
    """Texts to fit the head's transform on."""
    counts_prompt: bool = False
    """Whether the recipe's `max_length` includes the tokens of the prompt; see `for_task`."""

    @classmethod
    def build(
        cls,
        recipe: EncoderRecipe,
        engine: Engine,
        texts: Callable[[], Iterable[str]] = tuple,
        saved: Path | None = None,
        head_seed: int | None = None,
    ) -> Encoder:
        """Load or initialise a recipe's encoder on an engine.

        `texts` returns the training texts, for training a tokenizer. With `saved`, weights and tokenizer are
        loaded from that directory, whose files are verified. `head_seed`, if given, seeds the initialisation
        of pooler and head independently of the backbone's. Raises `ModelError`.
        """
        recipe = self_contained(recipe)
        context = BuildContext(
            texts,
            needs=recipe.needs,
            readings=recipe.readings,
            template=recipe.template,
        )
        if saved is not None:
            context = attrs.evolve(context, saved=saved / BACKBONE, sums=_sums(saved))
        backbone = recipe.backbone.build(context)
        returned(backbone, BuiltBackbone, recipe.backbone, "build")
        if head_seed is not None:
            engine.seed(head_seed)
        placed = engine.assemble(backbone, recipe.pooler, recipe.head, saved)
        encoder = cls(recipe, engine, backbone, placed)
        encoder.require_positions(recipe.max_length)
        for variant in recipe.task_recipes:
            (prompt,) = variant.prompts
            prompt = prompt.instructed(TextTask(instruction=" "))
            # Raises if the prompt leaves no tokens for a text.
            encoder._with_task_prompt(attrs.evolve(variant, prompt=prompt))
        transform = recipe.head.transform
        if saved is None and transform is not None:
            encoder.fit_texts = transform.texts(placed.transformed().width)
        return encoder

    def fit_transform(self) -> Encoder:
        """Fit the head's transform, if it has one, to the current weights; return this encoder."""
        transform = self.recipe.head.transform
        if transform is None:
            return self
        bare = self.placed.transformed()
        recipe = attrs.evolve(self.recipe, prompt=self.recipe.prompts[0])
        encoder = attrs.evolve(self, placed=bare, recipe=recipe)
        vectors = encoder.encode(self.fit_texts)
        fitted_on = {}
        if len(vectors):
            digest = hashlib.sha256(json.dumps(self.fit_texts).encode()).hexdigest()
            fitted_on = {"texts": len(vectors), "data": digest}
        fit = transform.fit(vectors, self.backbone)
        self.placed = bare.transformed(fit, fitted_on)
        return self

    @classmethod
    def load(
        cls,
        path: str | Path,
        runtime: Runtime | Mapping[str, Any] | None = None,
        plugins: Plugins | None = None,
        *,
        trust_remote_code: bool = False,
    ) -> Encoder:
        """Load an encoder written by `save` or a run.

        `runtime` is a runtime or its recipe table, by default `{"use": "cpu"}` (fp32). Python code that comes
        with the model runs only with `trust_remote_code`, whatever the directory says.

        Raises:
            ModelError: if the directory is not an encoder, its files are incomplete, it would run code, or it
                cannot run on the runtime.
        """
        directory = Path(path)
        plugins = plugins or load_plugins()
        recipe = saved_recipe(directory, plugins, trust_remote_code)
        runtime = runtime_of(runtime, plugins)
        for message in runtime_misfits(runtime, recipe):
            raise ModelError(message)
        encoder = cls.build(recipe, engine_of(runtime), saved=directory)
        if recipe.head.transform is not None and encoder.placed.fitted_on is None:
            raise ModelError(
                f"the encoder in `{path}` was saved before its transform was fitted; finish its run "
                "(`sentbed run --resume DIR`), or name the encoder of a run that has finished"
            )
        return attrs.evolve(encoder, source=directory)

    @classmethod
    def of(
        cls,
        table: Mapping[str, Any],
        runtime: Runtime | Mapping[str, Any] | None = None,
        plugins: Plugins | None = None,
    ) -> Encoder:
        """Build an encoder from a recipe's `[encoder]` table: `{"backbone": {"use": "bert", ...}, ...}`.

        Relative paths start in the current directory. Raises `RecipeError` with all problems.
        """
        plugins = plugins or load_plugins()
        recipe, problems = structure(
            table, EncoderRecipe, Document({}), plugins, Path.cwd()
        )
        if not problems:
            problems = [
                Problem(message, where) for where, message in misfits(recipe, plugins)
            ]
        if problems:
            raise RecipeError(problems)
        runtime = runtime_of(runtime, plugins)
        for message in runtime_misfits(runtime, recipe):
            raise RecipeError([Problem(message, "runtime")])
        return cls.build(recipe, engine_of(runtime)).fit_transform()

    @property
    def width(self) -> int:
        """Dimension of a sentence vector, or of a token vector."""
        return self.placed.width * self.recipe.joined

    @property
    def output(self) -> Output:
        """Its output for a text: `vector`, `tokens` or `sparse`."""
        return self.recipe.pooler.traits.output

    @property
    def similarity(self) -> Similarity | None:
        """Similarity for comparing its texts; None for the cosine."""
        return self.recipe.similarity

    def require_positions(self, max_length: int) -> None:
        """Raise `ModelError` if texts of `max_length` tokens, plus the template, exceed the positions."""
        positions = self.backbone.max_length
        for prompt, tokenizer in zip(
            self.recipe.resolved_prompts, self.tokenizers(), strict=True
        ):
            template = 0
            if prompt and not self.counts_prompt:
                template = _tokens_around_text(tokenizer)
            repeats = prompt is not None and prompt.template.between is not None
            times = 2 if repeats else 1
            if max_length * times + template > positions:
                around = ""
                if template:
                    around = f", and the template around a sentence has {template}"
                if repeats:
                    around += " and repeats it"
                raise ModelError(
                    f"`max_length` is {max_length}{around}; the backbone has positions for {positions} "
                    f"tokens, set `max_length` to {(positions - template) // times} or less"
                )

    def tokenizer(self, normalize: bool = True) -> Tokenizer:
        """Return the tokenizer, wrapped in the prompt if there is one; `normalize` applies its text rules."""
        prompt, tokenizer = self.recipe.resolved_prompt, self.backbone.tokenizer
        if prompt is None:
            return tokenizer
        longest = self.backbone.max_length
        return PromptTokenizer(
            tokenizer, prompt, longest, normalize, self.counts_prompt
        )

    def tokenizers(self, normalize: bool = True) -> list[Tokenizer]:
        """Return the tokenizer of each prompt; see `tokenizer`."""
        tokenizers = []
        for prompt in self.recipe.prompts:
            recipe = attrs.evolve(self.recipe, prompt=prompt, ensemble="mean")
            tokenizers.append(attrs.evolve(self, recipe=recipe).tokenizer(normalize))
        return tokenizers

    def for_task(self, task: TextTask) -> Encoder:
        """Return the encoder with its prompt for the texts of a task.

        With a prompt of `task_prompts`, prompt and text are truncated together, as in sentence-transformers:
        to `max_length` tokens, plus the tokens of the encoder's `prompt` if it has one.

        Raises:
            SentbedError: if that prompt needs an instruction, and the task gives none.
            ModelError: if the prompt leaves no tokens for a text.
        """
        if not self.recipe.task_prompts:
            return self
        recipe = self.recipe.for_task(task)
        if recipe.prompt is self.recipe.prompt:
            return attrs.evolve(self, recipe=recipe)
        return self._with_task_prompt(recipe)

    def _with_task_prompt(self, recipe: EncoderRecipe) -> Encoder:
        """Return the encoder with the prompt of a task, truncated as `for_task` says.

        Raises:
            ModelError: if the prompt leaves no tokens for a text.
        """
        longest = self.recipe.max_length
        if self.recipe.resolved_prompt is not None:
            longest += _tokens_around_text(self.tokenizer())
        longest = min(longest, self.backbone.max_length)
        encoder = attrs.evolve(self, recipe=attrs.evolve(recipe, max_length=longest))
        prompt = encoder.recipe.resolved_prompt
        if prompt is None:
            return encoder
        around = _tokens_around_text(encoder.tokenizer())
        if around + SHORTEST > longest:
            raise ModelError(
                f"the prompt {str(prompt.template)!r} of `task_prompts` has {around} tokens, and an input has "
                f"up to {longest}: too few are left for a text; raise `max_length`, or shorten the prompt"
            )
        encoder.counts_prompt = True
        return encoder

    def protocol(self) -> dict[str, Any]:
        """Return the encoder's part of a score's protocol: how it computes vectors from text."""
        pooler = self.recipe.pooler
        prompts = [
            prompt.describe() for prompt in self.recipe.resolved_prompts if prompt
        ]
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
        if self.recipe.joined > 1:
            facts["ensemble"] = self.recipe.ensemble
        similarity = self.similarity
        if similarity is not None and similarity.traits.formula != "cosine":
            facts["similarity"] = unstructure(similarity)
        if prompts:
            facts["prompt"] = prompts[0] if len(prompts) == 1 else prompts
        return facts

    def encode(
        self,
        texts: Sequence[str],
        progress: Progress | None = None,
        *,
        max_length: int | None = None,
        normalize: bool = True,
    ) -> NDArray[np.float32]:
        """Return one vector per text, float32 `(len(texts), width)`, in the order of `texts`.

        `progress` is called with the number of texts finished since its last call; `max_length` and
        `normalize` (the prompt's text rules) override the recipe's.
        """
        import numpy as np

        _require_list(texts)
        if self.output == "tokens":
            raise SentbedError(
                f"the pooler `{self.recipe.pooler.name}` gives a vector of each token, and here one vector "
                "of each text is needed; call `encode_tokens`, or choose another pooler, such as `mean`"
            )
        output = np.empty((len(texts), self.width), np.float32)
        self.encode_into(
            output, texts, progress, max_length=max_length, normalize=normalize
        )
        return output

    def encode_tokens(
        self,
        texts: Sequence[str],
        progress: Progress | None = None,
        *,
        max_length: int | None = None,
        normalize: bool = True,
    ) -> RaggedVectors:
        """Return the token vectors of each text, in the order of `texts`; arguments as for `encode`.

        For an encoder whose pooler gives token vectors (`output == "tokens"`).
        """
        _require_texts(texts)
        if self.output != "tokens":
            raise SentbedError(
                f"the pooler `{self.recipe.pooler.name}` gives one vector of each text, not of each token; "
                "call `encode`, or choose another pooler, such as `tokens`"
            )
        length, budget = max_length or self.recipe.max_length, self.engine.token_budget
        tokenizer = self.tokenizer(normalize)
        return encode_tokens(
            self.width, texts, tokenizer, self.placed, length, budget, progress
        )

    def encode_into(
        self,
        output: NDArray[np.float32],
        texts: Sequence[str],
        progress: Progress | None = None,
        *,
        max_length: int | None = None,
        normalize: bool = True,
    ) -> None:
        """Encode texts into `output`, `(len(texts), width)`, which may be a memory map; see `encode`.

        With several prompts, each is a separate pass; `progress` reports the last one.
        """
        import numpy as np

        _require_texts(texts)
        length, budget = max_length or self.recipe.max_length, self.engine.token_budget
        *others, last = self.tokenizers(normalize)
        parts = np.split(output, self.recipe.joined, axis=1)
        total = None
        if others and len(parts) == 1:
            total = np.zeros(output.shape, np.float32)

        for tokenizer, part in zip(others, cycle(parts)):
            encode_into(part, texts, tokenizer, self.placed, length, budget)
            if total is not None:
                total += output
        encode_into(parts[-1], texts, last, self.placed, length, budget, progress)
        if total is not None:
            output[:] = (output + total) / (len(others) + 1)

    def as_text_encoder(self) -> TextEncoder:
        """Return the encoder as evaluators use it: with its similarity, its output and its prompts of tasks."""
        return _EvaluatedEncoder(self)

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
        bar: EncodeBar | None = None,
    ) -> Evaluation:
        """Evaluate the encoder as `name`; scores record encoder, evaluator, plugin and protocol.

        `second`, a name and an encoder, encodes the second sentence of pairs for a `two_sided` evaluator.
        `progress` is called with the progress of each part. Vectors in `store` are not computed again, which
        changes no score. `plugins`, by default the installed ones, identify the evaluator's plugin.
        `prepared` is the result of `evaluator.prepare()`; `bar` counts the texts encoded so far.
        """
        info = (plugins or load_plugins()).origin(type(evaluator))
        if self.similarity is not None:
            messages = evaluator.similarity_misfits(self.similarity)
            for message in sentences(messages, evaluator, "similarity_misfits"):
                raise RunError(message)
        prepared = prepared or returned(
            evaluator.prepare(), Preparation, evaluator, "prepare"
        )
        left = _EvaluatedEncoder(self, progress, store, task_type=evaluator.name)
        right = None
        protocol = self.protocol()
        second_protocol: dict[str, Any] = {}
        if second is not None:
            second_name, encoder = second
            right = _EvaluatedEncoder(
                encoder, progress, store, task_type=evaluator.name
            )
            second_protocol = {"encoder": second_name, **encoder.protocol()}
        if isinstance(prepared, Prepared):
            left.bar = bar or EncodeBar(prepared.size)
            if right is not None:
                right.bar = left.bar
            evaluation = prepared.evaluate(left, right, left.device, left.progress)
        else:
            evaluation = prepared.evaluate(left)

        returned(evaluation, Evaluation, evaluator, "score")
        release = "" if info is None else info.release
        scores = []
        for score in returned(evaluation.scores, tuple | list, evaluator, "score"):
            returned(score, Score, evaluator, "score")
            encoder_protocol = {**protocol, **left.prompt_facts(score)}
            if right is not None:
                second_facts = right.prompt_facts(score)
                encoder_protocol["second"] = {**second_protocol, **second_facts}
            encoder_protocol |= score.transform
            complete = attrs.evolve(
                score,
                value=number(score.value, evaluator, "score"),
                encoder=name,
                evaluator=evaluator.name,
                plugin=release,
                protocol={"encoder": encoder_protocol, "evaluator": score.protocol},
            )
            scores.append(complete)
        primary = number(evaluation.primary, evaluator, "score")
        return attrs.evolve(evaluation, scores=tuple(scores), primary=primary)

    def is_finite(self) -> bool:
        """Whether weights and vectors are finite; they are not after training has diverged."""
        if self.placed.broken_weight() is not None:
            return False
        import numpy as np

        encode = self.encode_tokens if self.output == "tokens" else self.encode
        try:
            return bool(np.isfinite(encode(["a sentence"])[0]).all())
        except NotFiniteError:
            return False

    def save(self, path: str | Path) -> None:
        """Write weights, tokenizer and the encoder's part of the recipe, atomically."""
        import tomli_w

        try:
            target = Path(path).resolve()
        except (OSError, RuntimeError) as error:  # `RuntimeError` until Python 3.12
            raise RunError(
                f"`{path}` is a link that leads to itself; choose another place"
            ) from error
        empty = target.is_dir() and not any(target.iterdir())
        if target.exists() and not empty and not (target / ENCODER_FILE).is_file():
            raise RunError(
                f"`{path}` holds something that is not an encoder; choose another place, or move it away"
            )

        def fill(directory: Path) -> None:
            sums = self.placed.save(directory)
            table = encoder_table(self.recipe, target)
            write_atomic(directory / ENCODER_FILE, tomli_w.dumps(table))
            write_sums(directory, sums)

        write_directory(target, fill)

    def restore(self, path: Path) -> None:
        """Restore the weights that `save` wrote to `path`."""
        other = Encoder.build(self.recipe, self.engine, saved=path)
        self.backbone, self.placed = other.backbone, other.placed


def encoder_table(recipe: EncoderRecipe, directory: Path) -> dict[str, Any]:
    """Return the content of `encoder.toml` for an encoder that is saved in `directory`."""
    plugins = load_plugins()
    releases: dict[str, str] = {}
    for cls in components_of(recipe):
        info = plugins.origin(cls)
        if info is not None:
            releases[info.distribution] = info.version
    table = {"schema": SCHEMA, **unstructure(recipe, directory)}
    if releases:
        table[DISTRIBUTIONS] = dict(sorted(releases.items()))
    return table


def saved_recipe(
    directory: Path, plugins: Plugins, trust_remote_code: bool = False
) -> EncoderRecipe:
    """Return the recipe of a saved encoder.

    Raises:
        ModelError: if the directory is not an encoder, or would run code that is not trusted.
    """
    file = directory / ENCODER_FILE
    try:
        is_file = file.is_file()
    except OSError as error:
        raise ModelError(
            f"`{directory}` cannot be a path: {error.strerror}; check the path"
        ) from error
    if not is_file:
        raise ModelError(_no_encoder(directory))
    document = parse(read_file(file), str(file))
    table = dict(document.data)
    if (schema := table.pop("schema", None)) != SCHEMA:
        raise ModelError(
            f"`{file}` has `schema = {schema}`, this version of sentbed reads {SCHEMA}"
        )
    releases = table.pop(DISTRIBUTIONS, {})
    base = directory.resolve()
    recipe, problems = structure(
        table, EncoderRecipe, document, plugins, base, check=False
    )
    if not problems:
        portable = without_machine_settings(attrs.evolve(document, data=table), recipe)
        if portable.left_out:
            recipe, problems = structure(
                portable.data, EncoderRecipe, document, plugins, base, check=False
            )
    if problems:
        raise RecipeError(
            [*_missing_distributions(releases, document, plugins), *problems]
        )
    if recipe.runs_code and not trust_remote_code:
        raise ModelError(
            f"the encoder in `{directory}` wants to run Python code that comes with its model "
            f"(`{directory / BACKBONE}/*.py`, or the hub's); read it, then pass `trust_remote_code=True` "
            "or, on the command line, `--trust-remote-code`"
        )
    return recipe


def _missing_distributions(
    releases: Any, document: Document, plugins: Plugins
) -> Iterator[Problem]:
    """Yield a problem for each distribution of a saved encoder's components that is not installed."""
    if not isinstance(releases, dict):
        return
    installed = {plugin.distribution for plugin in plugins.plugins}
    for name, release in releases.items():
        if name in installed:
            continue
        yield document.problem(
            f"the encoder has parts of {printable(f'{name} {release}')}, which is not installed; "
            f"`pip install {printable(name)}`",
            (DISTRIBUTIONS, name),
        )


def _tokens_around_text(tokenizer: Tokenizer) -> int:
    """Return the number of tokens of a prompt around an empty text."""
    return int(tokenizer.encode([""], SHORTEST).lengths[0])


def _sums(saved: Path) -> dict[str, str]:
    """Return the verified SHA-256 of each file of the backbone; empty if there are no checksums."""
    if not (saved / SUMS_FILE).exists():
        return {}
    try:
        sums = verified_sums(saved)
    except ValueError as error:
        raise ModelError(
            f"the encoder in `{saved}` has changed since it was saved: {error}; copy or save it again, "
            f"or, if you have edited it, delete its `{SUMS_FILE}`"
        ) from error
    backbone_sums = {}
    for name, digest in sums.items():
        if name.startswith(f"{BACKBONE}/"):
            backbone_sums[name.removeprefix(f"{BACKBONE}/")] = digest
    return backbone_sums


def _no_encoder(directory: Path) -> str:
    """Return the message for a directory that is not a saved encoder."""
    several = sorted(f"`{file.parent}`" for file in directory.glob(f"*/{ENCODER_FILE}"))
    if several:
        return f"`{directory}` is not an encoder, it holds some; name one: {', '.join(several)}"
    if (directory / "modules.json").is_file():
        return (
            f"`{directory}` is a folder of sentence-transformers, not an encoder of sentbed; make one of it "
            f"with `sentbed import {directory} NEW_DIRECTORY`, and name that"
        )
    fault = f"holds no `{ENCODER_FILE}`" if directory.exists() else "does not exist"
    return (
        f"`{directory}` is not an encoder (it {fault}); "
        "name the directory `encoder` of a run that has finished, or one that `Encoder.save` wrote"
    )


def pair_name(name: str, second: str | None) -> str:
    """Return the name for scores of two towers, such as `en+zh` for `en` and `zh`."""
    return name if second is None else f"{name}+{second}"


@attrs.define(eq=False)
class EncodeBar:
    """Progress of encoding, over all lists of texts of one or several evaluations."""

    total: int
    """Number of texts."""
    done: int = 0
    """Number of texts in finished lists."""

    def advance(self, finished: int, count: int) -> int:
        """Return the number of texts done in all lists, with `finished` of `count` in the current list."""
        done = min(self.done + finished, self.total)
        if finished == count:
            self.done += count
        return done


@attrs.define(eq=False)
class _EvaluatedEncoder(TextEncoder):
    """The `TextEncoder` that evaluators receive: an encoder with progress, device and vector store."""

    encoder: Encoder
    report_progress: PartProgress | None = None
    store: VectorStore | None = None
    bar: EncodeBar | None = None
    """Progress over all lists; if None, each list has its own."""
    max_length: int | None = None
    task_type: str = ""
    """Name of the evaluator, the type of tasks that set no type."""
    task_prompts: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Task -> side -> prompt that its texts had, if the recipe has `task_prompts`."""
    variants: dict[Prompt, _EvaluatedEncoder] = attrs.field(factory=dict)
    """Prompt of a task -> the encoder with it."""
    backbone: BuiltBackbone | None = attrs.Factory(
        lambda evaluated: evaluated.encoder.backbone, takes_self=True
    )
    space: Any = attrs.field(init=False)
    """Key of the encoder in the store; None without a store."""

    @space.default
    def _space(self) -> Any:
        return None if self.store is None else self.store.space(self.encoder)

    @property
    def output(self) -> Output:  # type: ignore[override]  # the encoder's, and read only
        return self.encoder.output

    @property
    def similarity(self) -> Similarity | None:  # type: ignore[override]  # as `output`
        return self.encoder.similarity

    @property
    def device(self) -> str:
        return str(self.encoder.engine.device)

    @property
    def machine(self) -> Mapping[str, Any]:
        return self.encoder.engine.describe()

    def for_task(self, task: TextTask) -> _EvaluatedEncoder:
        if not self.encoder.recipe.task_prompts:
            return self
        task = attrs.evolve(task, type=task.type or self.task_type)
        encoder = self.encoder.for_task(task)
        (prompt,) = encoder.recipe.prompts
        if prompt not in self.variants:
            self.variants[prompt] = _EvaluatedEncoder(
                encoder, self.report_progress, self.store, self.bar
            )
        facts: dict[str, Any] = {}
        if encoder.recipe.resolved_prompt is not None:
            facts = encoder.recipe.resolved_prompt.describe()
        if encoder.counts_prompt:
            facts["max_length_with_prompt"] = encoder.recipe.max_length
        self.task_prompts.setdefault(task.name, {})[task.side or _ANY_SIDE] = facts
        return self.variants[prompt]

    def prompt_facts(self, score: Score) -> dict[str, Any]:
        """Return the prompts of the texts of a score, for its protocol; empty without `task_prompts`."""
        if not self.task_prompts:
            return {}
        prompts = self.task_prompts.get(score.task) or self.task_prompts.get("")
        if prompts is None:
            # A mean over several tasks, by default over all.
            tasks = score.protocol.get("of", self.task_prompts)
            of_tasks = {}
            for task, prompts_of_task in self.task_prompts.items():
                if task in tasks:
                    of_tasks[task] = prompts_of_task
            return {"prompt": of_tasks}
        if prompts.keys() == {_ANY_SIDE}:
            return {"prompt": prompts[_ANY_SIDE]}
        return {"prompt": prompts}

    def at_length(self, max_length: int) -> _EvaluatedEncoder:
        self.encoder.require_positions(max_length)
        return _EvaluatedEncoder(self.encoder, max_length=max_length)

    def through(
        self, wrap: Callable[[PlacedEncoder], PlacedEncoder]
    ) -> _EvaluatedEncoder:
        encoder = attrs.evolve(self.encoder, placed=wrap(self.encoder.placed))
        return _EvaluatedEncoder(encoder, max_length=self.max_length)

    def _counter(self, count: int) -> Progress:
        """Return a callback for the progress within a list of `count` texts."""
        finished = 0
        bar = self.bar or EncodeBar(count)

        def advance(more: int) -> None:
            nonlocal finished
            before, finished = finished, min(finished + more, count)
            if finished > before:
                self.progress("encode", bar.advance(finished, count), bar.total)

        return advance

    def encode_tokens(self, texts: Sequence[str]) -> RaggedVectors:
        # Without the store, which keeps one vector per text.
        advance = self._counter(len(texts))
        return self.encoder.encode_tokens(texts, advance, max_length=self.max_length)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        advance = self._counter(len(texts))
        if self.store is None:
            return self.encoder.encode(texts, advance, max_length=self.max_length)
        _require_texts(texts)
        vectors = self.store.encode(
            self.space,
            texts,
            lambda missing: self.encoder.encode(missing, advance),
            self.encoder.width,
            advance,
        )
        advance(len(texts))
        return vectors

    def progress(self, what: str, done: int, total: int) -> None:
        if self.report_progress is not None:
            self.report_progress(what, done, total)


def self_contained(recipe: EncoderRecipe) -> EncoderRecipe:
    """Return the recipe with the content of prompt files in place of their paths, for saving."""
    if recipe.task_prompts is not None:
        task_prompts = {}
        for key, prompt in recipe.task_prompts.items():
            task_prompts[key] = prompt.without_file()
        recipe = attrs.evolve(recipe, task_prompts=task_prompts)
    if recipe.prompt is None:
        return recipe
    prompts = tuple(prompt.without_file() for prompt in recipe.prompts)
    if isinstance(recipe.prompt, tuple):
        return attrs.evolve(recipe, prompt=prompts)
    return attrs.evolve(recipe, prompt=prompts[0])


def _require_texts(texts: Sequence[object]) -> None:
    _require_list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise SentbedError(f"text {row} is {text!r}, expected a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = (
                f"text {row} holds half of a surrogate pair; decode it as UTF-8 again"
            )
            raise SentbedError(message) from error


def _require_list(texts: object) -> None:
    if isinstance(texts, str):
        raise SentbedError(
            "`encode` takes a list of texts, found one string; put it in a list"
        )
    if not hasattr(texts, "__len__"):
        raise SentbedError(
            f"`encode` takes a list of texts, found {texts!r}; make a list of it"
        )


def runtime_of(
    runtime: Runtime | Mapping[str, Any] | None, plugins: Plugins
) -> Runtime:
    """Return a runtime, or the one of a recipe table; None means `{"use": "cpu"}`."""
    if isinstance(runtime, Runtime):
        return runtime
    table = runtime or {"use": "cpu"}
    return component_of(Runtime, table, plugins, "runtime")


def engine_of(
    runtime: Runtime | Mapping[str, Any] | None, plugins: Plugins | None = None
) -> Engine:
    """Return the engine of a runtime, or of its recipe table; None means `{"use": "cpu"}`."""
    if not isinstance(runtime, Runtime):
        runtime = runtime_of(runtime, plugins or load_plugins())
    return returned(runtime.build(), Engine, runtime, "build")
