"""Search for the best demonstration of a prompt: each candidate is scored on development data.

This is the in-context learning of PromptEOL (Jiang et al., 2023, section 3.2 and figure 3).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
from sentbed import Encoder, __version__
from sentbed.errors import RecipeError, RunError
from sentbed.helpers import score_text, write_atomic
from sentbed.protocols import Evaluation, Evaluator, Preparation
from sentbed.tools import (
    RESOLVED,
    EncoderRecipe,
    Plugins,
    Prompt,
    Recipe,
    build_encoder,
    describe,
    load_plugins,
    new_directory,
    plain,
    resolved_toml,
    unstructure,
)
from sentbed_jobs.pool_loop import Say
from sentbed_report.run_page.demonstration_search_section import verdict
from sentbed_report.run_report import Candidate, Ranking, RunReport
from sentbed_report.write_report import write_report
from sentbed_workbench.vector_cache import VectorCache

from sentbed_studies.cell_keys import decisive
from sentbed_studies.demonstration_candidates import as_field, candidate_prompts
from sentbed_studies.demonstration_journal import JOURNAL, Journal
from sentbed_studies.demonstration_search_config import Search


@attrs.frozen(eq=False)
class SearchResult:
    """Result of `search`."""

    directory: Path
    report: Path
    """Path of `search.html`. Next to it are `search.json`, `search.md`, and `resolved.toml`: the recipe with
    the best prompt."""
    winner: Prompt | tuple[Prompt, ...]
    """The encoder's `prompt` with the best demonstration."""
    ranking: Ranking
    taken_over: int
    """Number of prompts whose scores come from an earlier call, including the prompt without a demonstration."""


def search(
    recipe: Recipe,
    out: str | Path | None = None,
    plugins: Plugins | None = None,
    say: Say = lambda _: None,
) -> SearchResult:
    """Score the prompt alone and with each candidate; write the ranking and the recipe with the best prompt.

    Every score is written to disk before the next candidate is scored, so that the same call continues where
    an earlier call stopped.

    Args:
        recipe: Recipe with `[search]`.
        out: Directory of the search, by default `runs/NAME-search`.
        plugins: By default the installed ones.
        say: Gets the lines of progress.

    Raises:
        RecipeError: if the recipe has no `[search]`.
        RunError: if `out` has other files or another search, or if no candidate has a score.
        DataError: if the candidates or the data of the evaluator cannot be read.
        ModelError: if the encoder's weights cannot be read.
        RuntimeUnavailableError: if the recipe's runtime is not available on this machine.
    """
    config = recipe.table(Search)
    if config is None:
        message = "the recipe has no `[search]`; add one, with the evaluator that ranks in `with`"
        raise RecipeError([recipe.document.problem(message, ())])

    plugins = plugins or load_plugins()
    directory = Path(out or Path("runs") / f"{recipe.run.name}-search")
    if not (directory / JOURNAL).exists():
        new_directory(directory)

    name = config.encoder or recipe.main_encoder
    prompts = _prompts(recipe.encoders[name], config)
    # The data is prepared first, since it may have faults and loading the model takes longer.
    evaluator = config.evaluator
    prepared = evaluator.prepare()
    store = VectorCache(say=say) if recipe.run.cache else None
    evaluate = _PromptEvaluator(name, evaluator, prepared, plugins, store)
    encoder = build_encoder(recipe, name)
    journal = Journal.open(directory / JOURNAL, _digests(recipe, plugins, encoder))
    taken_over = len(prompts.keys() & journal.lines.keys())
    if taken_over:
        say(f"taken over from {journal.path}: {taken_over} of {len(prompts)}")

    _score_prompts(prompts, encoder, evaluate, journal, say)
    ranking = _ranking(config, prompts, journal)
    say(verdict(ranking))

    winner = as_field(prompts[ranking.winner.template])
    encoders = dict(recipe.encoders)
    encoders[name] = attrs.evolve(recipe.encoders[name], prompt=winner)
    best_recipe = attrs.evolve(recipe.without(Search), encoders=encoders)
    write_atomic(directory / RESOLVED, resolved_toml(best_recipe))

    report = RunReport(
        name=recipe.run.name,
        status="finished",
        error=None,
        started=journal.started,
        seconds=sum(journal.lines[template].seconds for template in prompts),
        recipe_toml=resolved_toml(recipe),
        manifest=_manifest(recipe, plugins, encoder),
        scores=journal.lines[ranking.winner.template].scores,
        ranking=ranking,
    )
    path = write_report(directory, report, "search")
    return SearchResult(directory, path, winner, ranking, taken_over)


@attrs.frozen(eq=False)
class _PromptEvaluator:
    """Evaluates an encoder with other prompts than its own."""

    name: str
    """Name of the encoder in the recipe."""
    evaluator: Evaluator
    prepared: Preparation
    plugins: Plugins
    store: VectorCache | None

    def __call__(self, encoder: Encoder, prompts: tuple[Prompt, ...]) -> Evaluation:
        """Return the scores of an encoder with other prompts."""
        recipe = attrs.evolve(encoder.recipe, prompt=as_field(prompts))
        prompted = attrs.evolve(encoder, recipe=recipe)
        if encoder.fit_texts:
            # With another prompt, the texts on which the transform is fitted have other vectors: fit it again.
            prompted.fit_transform()
        return prompted.evaluate(
            self.evaluator,
            self.name,
            store=self.store,
            plugins=self.plugins,
            prepared=self.prepared,
        )


def _score_prompts(
    prompts: Mapping[str, tuple[Prompt, ...]],
    encoder: Encoder,
    evaluate: _PromptEvaluator,
    journal: Journal,
    say: Say,
) -> None:
    """Score the prompts that the journal lacks, and add them. A note on an error says where scoring stopped."""
    place = "the start"
    try:
        for index, (template, of_candidate) in enumerate(prompts.items()):
            if template in journal.lines:
                continue
            sentence, word = _sentence_and_word(of_candidate[0], index)
            place = f"{index} of {len(prompts) - 1}: {sentence}"
            if word:
                place += f" -> {word}"

            started = monotonic()
            evaluation = evaluate(encoder, of_candidate)
            journal.add(index, template, evaluation, monotonic() - started)
            say(f"{place}  {score_text(evaluation.primary)}")
    except (Exception, KeyboardInterrupt) as error:
        error.add_note(
            f"stopped at {place}\nthe same command goes on from there, with {journal.path}"
        )
        raise


def _prompts(encoder: EncoderRecipe, config: Search) -> dict[str, tuple[Prompt, ...]]:
    """Return the prompts to score: text of the encoder's templates -> its prompts.

    The first prompts have no demonstration. The prompts of each candidate follow: every prompt of the encoder
    gets the demonstrations of the candidate. Candidates with equal text are scored once.
    """
    bare = tuple(attrs.evolve(prompt, demonstration=None) for prompt in encoder.prompts)
    candidates = candidate_prompts(config.candidates, bare, encoder.pooler)
    by_text: dict[str, tuple[Prompt, ...]] = {}
    for prompts in (bare, *candidates[: config.limit]):
        templates = []
        for prompt in prompts:
            resolved = prompt.resolve(encoder.pooler)
            if resolved is not None:
                templates.append(str(resolved.template))
        by_text.setdefault(" | ".join(templates), prompts)
    return by_text


def _sentence_and_word(prompt: Prompt, index: int) -> tuple[str, str]:
    """Return the sentences and the words of a prompt's demonstrations, each as one text.

    The prompt with index 0 has no demonstration. A candidate that is a whole template is shown as it is.
    """
    if index == 0:
        return "no demonstration", ""

    demonstrations = prompt.demonstrations
    if not demonstrations:
        return prompt.template or "", ""

    sentences = [demonstration.text for demonstration in demonstrations]
    words = [demonstration.word for demonstration in demonstrations]
    return " / ".join(sentences), " / ".join(words)


def _ranking(
    config: Search,
    prompts: Mapping[str, tuple[Prompt, ...]],
    journal: Journal,
) -> Ranking:
    """Return the candidates by their scores, best first. Raises `RunError` if no candidate has a score."""
    candidates = []
    for index, (template, prompt) in enumerate(prompts.items()):
        sentence, word = _sentence_and_word(prompt[0], index)
        candidates.append(
            Candidate(sentence, word, journal.lines[template].score, template)
        )

    baseline, *ranked = candidates
    # Candidates without a score (NaN) are last. Equal ones stay in the order of the file: the sort is stable.
    ranked.sort(key=lambda candidate: (math.isnan(candidate.score), -candidate.score))
    if not ranked or math.isnan(ranked[0].score):
        raise RunError(
            "no candidate has a score; look at the candidates, and at the encoder's weights and precision"
        )
    return Ranking(config.evaluator.name, baseline, tuple(ranked))


def _manifest(
    recipe: Recipe,
    plugins: Plugins,
    encoder: Encoder,
) -> dict[str, Any]:
    """Return the versions, seed, engine and weights of a search, for its report."""
    source = recipe.document.file
    place = Path(source).resolve().parent if source else None
    return {
        **describe(plugins, place),
        "seed": recipe.run.seed,
        "engine": dict(encoder.engine.describe()),
        "weights": dict(encoder.backbone.origin),
    }


def _digests(
    recipe: Recipe,
    plugins: Plugins,
    encoder: Encoder,
) -> dict[str, str]:
    """Return part -> hash for everything that determines the scores, except the prompt."""
    table = unstructure(attrs.evolve(decisive(recipe), evaluate=()))
    table["search"].pop("candidates", None)
    table["search"].pop("limit", None)
    protocol = dict(encoder.protocol())
    protocol.pop("prompt", None)
    versions = {("sentbed", __version__)}
    versions.update((plugin.distribution, plugin.version) for plugin in plugins.plugins)
    return {
        "recipe": _digest([table, protocol]),
        "weights": _digest(encoder.backbone.origin),
        "versions": _digest(sorted(versions)),
    }


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(plain(part), sort_keys=True).encode()).hexdigest()
