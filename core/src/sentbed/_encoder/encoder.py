"""The class `Encoder`, with which users load, build, apply, evaluate and save sentence encoders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

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
"""Subdirectory of a saved encoder that has the backbone."""

ENCODER_FILE = "encoder.toml"
"""File of a saved encoder that has the encoder's part of the recipe."""

DISTRIBUTIONS = "distributions"
"""Table in `encoder.toml` with the versions of the distributions that have the encoder's components."""

_ANY_SIDE = "text"
"""Key, in a score's protocol, of the prompt for texts that are neither queries nor documents."""


@attrs.define(eq=False, repr=False)
class Encoder:
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
            saved: Directory of a saved encoder, from which weights and tokenizer are loaded after its files are
                verified. If it is None, the backbone loads or initialises them.
            head_seed: Seed to set before pooler and head are initialised, so that they do not depend on the
                random numbers that the backbone has drawn. If it is None, no seed is set.

        Raises:
            ModelError: if files are missing or have changed, or sentences and prompts are too long for the
                backbone.
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

        if head_seed is not None:
            engine.seed(head_seed)
        placed = engine.assemble(backbone, recipe.pooler, recipe.head, saved)
        encoder = cls(recipe, engine, backbone, placed)

        encoder.require_positions(recipe.max_length)
        for task_recipe in recipe.task_recipes:
            (prompt,) = task_recipe.prompts
            prompt = prompt.instructed(TextTask(instruction=" "))
            # Called only for its check: it raises if the prompt leaves no tokens for a text.
            encoder._with_task_prompt(attrs.evolve(task_recipe, prompt=prompt))

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
        recipe = attrs.evolve(self.recipe, prompt=self.recipe.prompts[0])
        encoder = attrs.evolve(self, placed=untransformed, recipe=recipe)
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
            ModelError: if the directory is not an encoder, its files are missing or have changed, it would run
                code without `trust_remote_code`, or it cannot run on the runtime.
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
        recipe = structure(document, EncoderRecipe, plugins, Path.cwd())
        problems = []
        for path, message in misfits(recipe):
            problems.append(Problem(message, path))
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

    def __reduce__(self) -> NoReturn:
        """Raise `SentbedError`: an engine and its tokenizer live in one process."""
        raise SentbedError(
            "an encoder can be neither pickled nor copied; `save` it, and `Encoder.load` it where it is needed"
        )

    @property
    def width(self) -> int:
        """Dimension of a sentence vector, or of a token vector."""
        return self.placed.width

    @property
    def output(self) -> Output:
        """What the encoder computes for a text: `vector`, `tokens` or `sparse`."""
        return self.recipe.pooler.traits.output

    @property
    def similarity(self) -> Similarity | None:
        """Similarity for comparing the encoder's texts; None for the cosine."""
        return self.recipe.similarity

    def require_positions(self, max_length: int) -> None:
        """Raise `ModelError` if the backbone has too few positions for `max_length` tokens and the template."""
        positions = self.backbone.max_length
        prompts = zip(self.recipe.resolved_prompts, self.tokenizers(), strict=True)
        for prompt, tokenizer in prompts:
            template_tokens = 0
            if prompt and not self.counts_prompt:
                template_tokens = _tokens_around_text(tokenizer)
            repeats_text = prompt is not None and prompt.template.between is not None
            times = 2 if repeats_text else 1
            if max_length * times + template_tokens <= positions:
                continue

            around = ""
            if template_tokens:
                around = f", and the template around a sentence has {template_tokens}"
            if repeats_text:
                around += " and repeats it"
            raise ModelError(
                f"`max_length` is {max_length}{around}; the backbone has positions for {positions} "
                f"tokens, set `max_length` to {(positions - template_tokens) // times} or less"
            )

    def tokenizer(self, normalize: bool = True) -> Tokenizer:
        """Return the tokenizer of the backbone, or one that also puts texts into the prompt.

        With `normalize`, the text rules of the prompt (`prompt.normalizer`) change each text first; for example,
        they add a full stop. Raises `SentbedError` if there are several prompts.
        """
        prompt, tokenizer = self.recipe.resolved_prompt, self.backbone.tokenizer
        if prompt is None:
            return tokenizer
        longest = self.backbone.max_length
        return PromptTokenizer(
            tokenizer, prompt, longest, normalize, self.counts_prompt
        )

    def tokenizers(self, normalize: bool = True) -> list[Tokenizer]:
        """Return a tokenizer for each prompt; see `tokenizer`."""
        tokenizers = []
        for prompt in self.recipe.prompts:
            recipe = attrs.evolve(self.recipe, prompt=prompt)
            tokenizers.append(attrs.evolve(self, recipe=recipe).tokenizer(normalize))
        return tokenizers

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
        return self._with_task_prompt(recipe)

    def _with_task_prompt(self, recipe: EncoderRecipe) -> Encoder:
        """Return the encoder with the prompt of `recipe`, which is one of `task_prompts`; see `for_task`.

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
        if similarity is not None and similarity.traits.formula != "cosine":
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
        progress: Progress | None = None,
        *,
        max_length: int | None = None,
        normalize: bool = True,
    ) -> NDArray[np.float32]:
        """Return one vector per text, float32 `(len(texts), width)`, in the order of `texts`.

        Args:
            texts: The texts.
            progress: Called with the number of texts that were encoded since its last call.
            max_length: Maximum number of tokens of a text; by default that of the recipe.
            normalize: Whether the text rules of the prompt (`prompt.normalizer`) change each text before it is
                encoded. This has nothing to do with the length of vectors.
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
        """Return the token vectors of each text, in the order of `texts`.

        The encoder's `output` must be `tokens`. The arguments are those of `encode`.
        """
        _require_texts(texts)
        if self.output != "tokens":
            raise SentbedError(
                f"the pooler `{self.recipe.pooler.name}` gives one vector of each text, not of each token; "
                "call `encode`, or choose another pooler, such as `tokens`"
            )
        length, budget = self._length(max_length), self.engine.token_budget
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
        """Write one vector per text into `output`, `(len(texts), width)`, which may be a memory map.

        The other arguments are those of `encode`. With several prompts, there is a pass for each of them;
        `progress` reports only the last pass.
        """
        import numpy as np

        _require_texts(texts)
        expected = (len(texts), self.width)
        if output.shape != expected:
            raise SentbedError(
                f"`output` has the shape {output.shape}; give an array of the shape {expected}"
            )
        length, budget = self._length(max_length), self.engine.token_budget
        *others, last = self.tokenizers(normalize)
        if not others:
            encode_into(output, texts, last, self.placed, length, budget, progress)
            return

        total = np.zeros(output.shape, np.float32)
        for tokenizer in others:
            encode_into(output, texts, tokenizer, self.placed, length, budget)
            total += output
        encode_into(output, texts, last, self.placed, length, budget, progress)
        output[:] = (output + total) / (len(others) + 1)

    def _length(self, max_length: int | None) -> int:
        """Return the maximum number of tokens of a text: `max_length`, or that of the recipe if it is None.

        Raises:
            SentbedError: if it is no number of tokens, or above the backbone's positions.
        """
        if max_length is None:
            return self.recipe.max_length
        is_whole = hasattr(max_length, "__index__") and not isinstance(max_length, bool)
        if not is_whole or max_length < SHORTEST:
            raise SentbedError(
                f"`max_length` is {max_length!r}; give a whole number of tokens, at least {SHORTEST}"
            )
        # The recipe's length was checked when the encoder was built.
        if max_length > self.recipe.max_length:
            self.require_positions(max_length)
        return max_length

    def as_text_encoder(self) -> TextEncoder:
        """Return the encoder for evaluators, with its similarity, its output and its prompts for tasks."""
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
        """Evaluate the encoder. Set the names of encoder, evaluator and plugin in the scores, and their protocol.

        Args:
            evaluator: The evaluator.
            name: Name of this encoder in the scores.
            second: Name of another encoder, and this encoder, which encodes the second sentences of pairs. Only
                evaluators with the trait `two_sided` use one.
            progress: Called with the progress of each part of the evaluation.
            store: Store from which vectors are taken instead of computing them again; scores do not change.
            plugins: Installed plugins, among which that of the evaluator is found; they are loaded by default.
            prepared: Result of `evaluator.prepare()`, if it was called before.
            bar: Counts the texts that have been encoded, over several evaluations.
        """
        info = (plugins or load_plugins()).origin(type(evaluator))
        if self.similarity is not None:
            messages = evaluator.similarity_misfits(self.similarity)
            for message in messages:
                raise RunError(message)
        if prepared is None:
            prepared = evaluator.prepare()

        type_of_tasks = evaluator.name
        first_encoder = _EvaluatedEncoder(
            self, progress, store, task_type=type_of_tasks
        )
        second_encoder = None
        protocol = self.protocol()
        second_protocol: dict[str, Any] = {}
        if second is not None:
            second_name, encoder = second
            second_encoder = _EvaluatedEncoder(
                encoder, progress, store, task_type=type_of_tasks
            )
            second_protocol = {"encoder": second_name, **encoder.protocol()}

        if isinstance(prepared, Prepared):
            first_encoder.bar = bar or EncodeBar(prepared.size)
            if second_encoder is not None:
                second_encoder.bar = first_encoder.bar
            evaluation = prepared.evaluate(
                first_encoder,
                second_encoder,
                first_encoder.device,
                first_encoder.progress,
            )
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

    def is_finite(self) -> bool:
        """Whether all weights, and the vector of a sentence, are finite.

        They are not if training has diverged.
        """
        if self.placed.broken_weight() is not None:
            return False
        import numpy as np

        # Vectors of finite weights may overflow.
        encode = self.encode_tokens if self.output == "tokens" else self.encode
        try:
            return bool(np.isfinite(encode(["a sentence"])[0]).all())
        except NotFiniteError:
            return False

    def save(self, path: str | Path, plugins: Plugins | None = None) -> None:
        """Write the encoder's weights, its tokenizer and its part of the recipe to a directory, atomically.

        The directory may exist if it is empty or a saved encoder, which is then replaced. `plugins` are the
        installed plugins, among which those of the encoder's components are found; they are loaded by default.

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
            sums = self.placed.save(directory)
            table = encoder_table(self.recipe, plugins)
            write_atomic(directory / ENCODER_FILE, tomli_w.dumps(table))
            write_sums(directory, sums)

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


def encoder_table(
    recipe: EncoderRecipe,
    plugins: Plugins | None = None,
) -> dict[str, Any]:
    """Return the data of `encoder.toml` for a saved encoder.

    The plugins of the encoder's components are found among `plugins`, which are loaded by default.
    """
    table = {"schema": SCHEMA, **unstructure(recipe)}
    plugins = plugins or load_plugins()
    releases: dict[str, str] = {}
    for cls in components_of(recipe):
        info = plugins.origin(cls)
        if info is not None:
            releases[info.distribution] = info.version
    if releases:
        table[DISTRIBUTIONS] = dict(sorted(releases.items()))
    return table


def saved_recipe(
    directory: Path,
    plugins: Plugins,
    trust_remote_code: bool = False,
) -> EncoderRecipe:
    """Return the recipe of the encoder that is saved in a directory.

    Raises:
        ModelError: if the directory is not an encoder, or it would run code without `trust_remote_code`.
        RecipeError: if `encoder.toml` has problems, such as a component that is not installed.
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
    schema = document.data.get("schema")
    if schema != SCHEMA:
        raise ModelError(
            f"`{file}` has `schema = {schema}`, this version of sentbed reads {SCHEMA}"
        )
    releases = document.data.get(DISTRIBUTIONS, {})

    base = directory.resolve()
    encoder = document.without("schema", DISTRIBUTIONS)
    try:
        recipe = structure(encoder, EncoderRecipe, plugins, base, check=False)
    except RecipeError as error:
        missing = _missing_distributions(releases, document, plugins)
        raise RecipeError([*missing, *error.problems]) from error
    if recipe.runs_code and not trust_remote_code:
        raise ModelError(
            f"the encoder in `{directory}` wants to run Python code that comes with its model "
            f"(`{directory / BACKBONE}/*.py`, or the hub's); read it, then pass `trust_remote_code=True` "
            "or, on the command line, `--trust-remote-code`"
        )
    return recipe


def _missing_distributions(
    releases: Any,
    document: Document,
    plugins: Plugins,
) -> Iterator[Problem]:
    """Yield a problem for each distribution that is not installed, but has a component of a saved encoder."""
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
    """Return the number of tokens of a prompt without a text, including special tokens."""
    return int(tokenizer.encode([""], SHORTEST).lengths[0])


def _sums(saved: Path) -> dict[str, str]:
    """Return the verified SHA-256 of each file of a saved encoder's backbone.

    The result is empty if the directory has no file of checksums.

    Raises:
        ModelError: if a file has changed.
    """
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
    files = [
        *directory.glob(f"*/{ENCODER_FILE}"),
        *directory.glob(f"encoder/*/{ENCODER_FILE}"),  # those of a run with several
    ]
    encoders = sorted(f"`{file.parent}`" for file in files)
    if encoders:
        return f"`{directory}` is not an encoder, it holds some; use {' or '.join(encoders)}"
    if (directory / "modules.json").is_file():
        return (
            f"`{directory}` is a folder of sentence-transformers, not an encoder of sentbed; make one of it "
            f"with `sentbed import {directory} NEW_DIRECTORY --from sentence-transformers`, and name that"
        )
    fault = f"holds no `{ENCODER_FILE}`" if directory.exists() else "does not exist"
    return (
        f"`{directory}` is not an encoder (it {fault}); "
        "name the directory `encoder` of a run that has finished, or one that `Encoder.save` wrote"
    )


def pair_name(name: str, second: str | None) -> str:
    """Return the name that a pair of encoders has in scores, such as `en+zh` for `en` and `zh`.

    If `second` is None, there is no pair, and the name of the encoder is returned.
    """
    if second is None:
        return name
    return f"{name}+{second}"


@attrs.define(eq=False)
class EncodeBar:
    """Counts the texts that have been encoded, over all lists of texts of one or several evaluations."""

    total: int
    """Number of texts in all lists."""
    done: int = 0
    """Number of texts in the lists that are finished."""

    def advance(self, finished: int, count: int) -> int:
        """Return how many texts of all lists are encoded, when `finished` of `count` of the current list are."""
        done = min(self.done + finished, self.total)
        if finished == count:
            self.done += count
        return done


@attrs.define(eq=False)
class _EvaluatedEncoder(TextEncoder):
    """The text encoder that evaluators receive: an encoder that reports progress and uses a vector store."""

    encoder: Encoder
    report_progress: PartProgress | None = None
    store: VectorStore | None = None
    bar: EncodeBar | None = None
    """Counts the texts over all lists; if None, each list is counted by itself."""
    task_type: str = ""
    """Name of the evaluator. It is the type of tasks that do not set a type."""
    task_prompts: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Prompts that the texts of each task had, by side, if the recipe has `task_prompts`; for protocols."""
    variants: dict[Prompt, _EvaluatedEncoder] = attrs.field(factory=dict)
    """For each prompt of a task that has been used, the encoder with this prompt."""
    space: Any = attrs.field(init=False)
    """Key under which the store has the encoder's vectors; None without a store."""

    @space.default
    def _space(self) -> Any:
        if self.store is None:
            return None
        return self.store.space(self.encoder)

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
        """Return the prompts with which the texts of a score were encoded, for its protocol.

        The result is empty if the recipe has no `task_prompts`.
        """
        if not self.task_prompts:
            return {}
        prompts = self.task_prompts.get(score.task) or self.task_prompts.get("")
        if prompts is None:
            # The score is a mean over tasks; without `of`, over all tasks.
            tasks = score.protocol.get("of", self.task_prompts)
            prompts_by_task = {}
            for task, prompts_of_task in self.task_prompts.items():
                if task in tasks:
                    prompts_by_task[task] = prompts_of_task
            return {"prompt": prompts_by_task}
        if prompts.keys() == {_ANY_SIDE}:
            return {"prompt": prompts[_ANY_SIDE]}
        return {"prompt": prompts}

    def at_length(self, max_length: int) -> _EvaluatedEncoder:
        # The copy's recipe has the length: what is timed does not check it in each call.
        self.encoder.require_positions(max_length)
        recipe = attrs.evolve(self.encoder.recipe, max_length=max_length)
        return _EvaluatedEncoder(attrs.evolve(self.encoder, recipe=recipe))

    def through(
        self, wrap: Callable[[PlacedEncoder], PlacedEncoder]
    ) -> _EvaluatedEncoder:
        encoder = attrs.evolve(self.encoder, placed=wrap(self.encoder.placed))
        return _EvaluatedEncoder(encoder)

    def _counter(self, count: int) -> Progress:
        """Return a function that is called with the progress within a list of `count` texts, and reports it."""
        finished = 0
        bar = self.bar or EncodeBar(count)

        def advance(more: int) -> None:
            nonlocal finished
            before, finished = finished, min(finished + more, count)
            if finished > before:
                self.progress("encode", bar.advance(finished, count), bar.total)

        return advance

    def encode_tokens(self, texts: Sequence[str]) -> RaggedVectors:
        # The store is not used, since it stores one vector per text.
        advance = self._counter(len(texts))
        return self.encoder.encode_tokens(texts, advance)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        advance = self._counter(len(texts))
        if self.store is None:
            return self.encoder.encode(texts, advance)
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

    def progress(
        self,
        what: str,
        done: int,
        total: int,
    ) -> None:
        if self.report_progress is not None:
            self.report_progress(what, done, total)


def self_contained(recipe: EncoderRecipe) -> EncoderRecipe:
    """Return the recipe with the text of each template instead of the name of its file, for saving."""
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
    """Raise `SentbedError` if `texts` is not a list of strings that can be encoded as UTF-8."""
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
    """Raise `SentbedError` if `texts` is a single string, or has no length or no order."""
    if isinstance(texts, str):
        raise SentbedError(
            "`encode` takes a list of texts, found one string; put it in a list"
        )
    if not hasattr(texts, "__len__") or isinstance(texts, Mapping | Set):
        found = type(texts).__name__
        raise SentbedError(
            f"`encode` takes a list of texts, found {found}; make a list of it"
        )


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
