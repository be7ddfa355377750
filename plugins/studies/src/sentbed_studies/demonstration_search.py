"""Search for a prompt's demonstration: score each candidate on development data and keep the best prompt.

This is the in-context learning of PromptEOL (Jiang et al., 2023, section 3.2 and figure 3).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
from sentbed import Encoder, __version__
from sentbed.errors import DataError, RecipeError, RunError, reason_of
from sentbed.helpers import cannot_write, read_file, returned, write_atomic
from sentbed.protocols import Evaluation, Preparation, Score
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
    score_record,
    unstructure,
)
from sentbed_jobs.pool_loop import Say
from sentbed_report.report_json import read_score
from sentbed_report.run_page.demonstration_search_section import verdict
from sentbed_report.run_report import Candidate, Ranking, RunReport
from sentbed_report.write_report import write_report
from sentbed_workbench.vector_cache import VectorCache

from sentbed_studies.cell_keys import decisive
from sentbed_studies.demonstration_candidates import as_field, candidate_prompts
from sentbed_studies.demonstration_search_config import Search

JOURNAL = "search.jsonl"
SCHEMA = 1
LARGEST = 1 << 28
"""Maximum size of a journal in bytes."""
_BEGINNING = b'{"schema": '
"""First bytes of every journal; a journal without a complete line is recognised by them."""


@attrs.frozen(eq=False)
class SearchResult:
    """Result of `search`."""

    directory: Path
    report: Path
    """Path of `search.html`, next to `search.json`, `search.md` and the winner's recipe, `resolved.toml`."""
    winner: Prompt | tuple[Prompt, ...]
    """The encoder's `prompt` with the best demonstration."""
    ranking: Ranking
    taken_over: int
    """Number of prompts that an earlier call had scored, including the one without a demonstration."""


def search(
    recipe: Recipe,
    out: str | Path | None = None,
    plugins: Plugins | None = None,
    say: Say = lambda _: None,
) -> SearchResult:
    """Score the prompt without a demonstration and with each candidate; write the ranking and the best recipe.

    `out` is by default `runs/NAME-search`. Every score is written to disk before the next candidate is
    scored, and the same call continues where an earlier one stopped. `say` gets the lines of progress.

    Raises:
        RecipeError: if the recipe has no `[search]`.
        RunError: if `out` has other files or another search, or no candidate has a score.
        DataError, ModelError, RuntimeUnavailableError: if parts of the recipe cannot be used.
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
    store = VectorCache(say=say) if recipe.run.cache else None
    prepared = returned(
        config.evaluator.prepare(), Preparation, config.evaluator, "prepare"
    )
    encoder = build_encoder(recipe, name)
    journal = _Journal.open(directory / JOURNAL, _digests(recipe, plugins, encoder))
    taken_over = len(prompts.keys() & journal.lines.keys())
    if taken_over:
        say(f"taken over from {journal.path}: {taken_over} of {len(prompts)}")

    place = "the start"
    try:
        for index, (template, prompt) in enumerate(prompts.items()):
            if template in journal.lines:
                continue
            sentence, word = _sentence_and_word(prompt[0], index)
            place = f"{index} of {len(prompts) - 1}: {sentence}"
            if word:
                place += f" -> {word}"
            started = monotonic()
            prompted_recipe = attrs.evolve(encoder.recipe, prompt=as_field(prompt))
            prompted = attrs.evolve(encoder, recipe=prompted_recipe)
            if encoder.fit_texts:
                # The texts that the transform is fitted on have other vectors with another prompt.
                prompted.fit_transform()
            evaluation = prompted.evaluate(
                config.evaluator, name, store=store, plugins=plugins, prepared=prepared
            )
            journal.add(index, template, evaluation, monotonic() - started)
            say(f"{place}  {evaluation.primary:.2f}")
    except (Exception, KeyboardInterrupt) as error:
        error.add_note(
            f"stopped at {place}\nthe same command goes on from there, with {journal.path}"
        )
        raise

    ranking = _ranking(config, prompts, journal)
    say(verdict(ranking))
    winner = as_field(prompts[ranking.winner.template])
    encoders = dict(recipe.encoders)
    encoders[name] = attrs.evolve(recipe.encoders[name], prompt=winner)
    best_recipe = attrs.evolve(recipe.without(Search), encoders=encoders)
    write_atomic(directory / RESOLVED, resolved_toml(best_recipe, directory))
    report = RunReport(
        name=recipe.run.name,
        status="finished",
        error=None,
        started=journal.started,
        seconds=sum(journal.lines[template].seconds for template in prompts),
        recipe_toml=resolved_toml(recipe, directory),
        manifest=_manifest(recipe, plugins, encoder),
        scores=journal.lines[ranking.winner.template].scores,
        ranking=ranking,
    )
    return SearchResult(
        directory,
        write_report(directory, report, "search"),
        winner,
        ranking,
        taken_over,
    )


def _prompts(encoder: EncoderRecipe, config: Search) -> dict[str, tuple[Prompt, ...]]:
    """Return text of the templates -> the encoder's prompts: first without a demonstration, then per candidate.

    If the encoder has several prompts, each gets the demonstration. Candidates with equal text count once.
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
    """Return the sentences and words of a prompt's demonstrations as text; the prompt with index 0 has none."""
    if index == 0:
        return "no demonstration", ""

    demonstrations = prompt.demonstrations
    if not demonstrations:
        return prompt.template or "", ""

    sentences = [demonstration.text for demonstration in demonstrations]
    words = [demonstration.word for demonstration in demonstrations]
    return " / ".join(sentences), " / ".join(words)


def _ranking(
    config: Search, prompts: Mapping[str, tuple[Prompt, ...]], journal: _Journal
) -> Ranking:
    """Return the candidates, best first. Raises `RunError` if none has a score."""
    candidates = []
    for index, (template, prompt) in enumerate(prompts.items()):
        sentence, word = _sentence_and_word(prompt[0], index)
        candidates.append(
            Candidate(sentence, word, journal.lines[template].score, template)
        )

    baseline, *ranked = candidates
    # Candidates without a score are last; ties stay in file order, as the sort is stable.
    ranked.sort(key=lambda candidate: (math.isnan(candidate.score), -candidate.score))
    if not ranked or math.isnan(ranked[0].score):
        raise RunError(
            "no candidate has a score; look at the candidates, and at the encoder's weights and precision"
        )
    return Ranking(config.evaluator.name, baseline, tuple(ranked))


def _manifest(recipe: Recipe, plugins: Plugins, encoder: Encoder) -> dict[str, Any]:
    source = recipe.document.file
    place = Path(source).resolve().parent if source else None
    return {
        **describe(plugins, place),
        "seed": recipe.run.seed,
        "engine": dict(encoder.engine.describe()),
        "weights": dict(encoder.backbone.origin),
    }


def _digests(recipe: Recipe, plugins: Plugins, encoder: Encoder) -> dict[str, str]:
    """Return a hash for each part, other than the prompt, that determines the scores."""
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


@attrs.frozen
class _Line:
    """Entry of the journal: the scores with one prompt."""

    score: float
    scores: tuple[Score, ...]
    seconds: float

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> _Line:
        """Return the entry of a line. Raises `LookupError` or `TypeError` if the line has none."""
        scores = line["scores"]
        if not isinstance(scores, list):
            raise TypeError(f"found {scores!r:.40}, expected scores")
        return cls(
            _number(line["score"]),
            tuple(map(read_score, scores)),
            _number(line["seconds"]),
        )

    @property
    def data(self) -> list[Any]:
        """Task, metric and digest of the data of each score, from its protocol."""
        data = []
        for score in self.scores:
            digest = score.evaluator_protocol.get("data")
            data.append((score.task, score.metric, digest))
        return data


def _number(value: Any) -> float:
    if value is None:
        # JSON has null for NaN.
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"found {value!r:.40}, expected a number")
    return float(value)


@attrs.frozen(eq=False)
class _Journal:
    """Journal of scored prompts: a header with hashes of all that determines scores, then a line per prompt."""

    path: Path
    started: str
    """Time of the first start, ISO 8601."""
    lines: dict[str, _Line]
    """Text of a prompt -> its entry."""

    @classmethod
    def open(cls, path: Path, decides: Mapping[str, str]) -> _Journal:
        """Read or create the journal. Raises `RunError` if it belongs to another search."""
        advice = "choose another `--out`, or remove it"
        unreadable = f"`{path}` cannot be read as the journal of a search; {advice}"
        try:
            content = read_file(path, LARGEST) if path.exists() else b""
        except (OSError, DataError) as error:
            raise RunError(
                f"`{path}` cannot be read: {reason_of(error)}; {advice}"
            ) from error

        whole = content[: content.rfind(b"\n") + 1]
        if not whole:
            if not content.startswith(_BEGINNING[: len(content)]):
                raise RunError(unreadable)
            if content:
                os.truncate(path, 0)
            started = datetime.now(UTC).isoformat(timespec="seconds")
            _append(path, {"schema": SCHEMA, "started": started, "decides": decides})
            return cls(path, started, {})

        try:
            header, *lines = map(json.loads, whole.splitlines())
            differing = []
            for part, digest in decides.items():
                if header["decides"][part] != digest:
                    differing.append(f"another {part}")
            entries = {str(line["prompt"]): _Line.read(line) for line in lines}
            journal = cls(path, str(header["started"]), entries)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise RunError(unreadable) from error

        if differing:
            raise RunError(
                f"`{path}` is of a search with {' and '.join(differing)}, whose scores cannot stand beside "
                f"those of this one; {advice}"
            )

        if whole != content:
            # The process was killed while it wrote a line: this prompt is scored again.
            os.truncate(path, len(whole))
        return journal

    def add(
        self, index: int, prompt: str, evaluation: Evaluation, seconds: float
    ) -> None:
        """Append the scores with a prompt, and return when they are on disk.

        Raises:
            RunError: if they were computed on other data than the earlier scores, or the disk is full.
        """
        line = plain(
            {
                "index": index,
                "prompt": prompt,
                "score": evaluation.primary,
                "scores": [score_record(score) for score in evaluation.scores],
                "seconds": round(seconds, 3),
            }
        )
        entry = _Line.read(line)
        if self.lines and next(iter(self.lines.values())).data != entry.data:
            raise RunError(
                f"the evaluator's data is no longer that of the scores in `{self.path}`; "
                "choose another `--out`, or put the data back"
            )

        _append(self.path, line)
        self.lines[prompt] = entry


def _append(path: Path, line: Mapping[str, Any]) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(json.dumps(line).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
