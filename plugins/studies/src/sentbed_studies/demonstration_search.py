"""Demonstration search: score each candidate on development data and keep the best prompt.

In-context learning of PromptEOL (Jiang et al., 2023, section 3.2 and figure 3).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
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
from sentbed_report.report_json import score_of
from sentbed_report.run_page.search_section import verdict
from sentbed_report.run_report import Candidate, Ranking, RunReport
from sentbed_report.write_report import write_report
from sentbed_workbench.vector_cache import VectorCache

from sentbed_studies.cell_keys import decisive
from sentbed_studies.demonstration_candidates import as_field, candidate_prompts
from sentbed_studies.demonstration_search_config import Search

JOURNAL = "search.jsonl"
SCHEMA = 1
LARGEST = 1 << 28
"""Bytes of the largest journal."""
_BEGINNING = b'{"schema": '
"""Beginning of every journal: a file without a whole line begins so, or is none of ours."""


@attrs.frozen(eq=False)
class SearchResult:
    """Result of `search`."""

    directory: Path
    report: Path
    """Path of `search.html`, next to `search.json`, `search.md` and the winner's recipe, `resolved.toml`."""
    winner: Prompt | tuple[Prompt, ...]
    """The encoder's `prompt`."""
    ranking: Ranking
    taken_over: int
    """Number of prompts scored before resuming, including the one without a demonstration."""


def search(
    recipe: Recipe,
    out: str | Path | None = None,
    plugins: Plugins | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> SearchResult:
    """Score the prompt without and with each candidate, and write the ranking and the best recipe.

    `out` is `runs/NAME-search` where left out. Every score is on disk before the next candidate's turn: the
    same call goes on where an earlier one stopped. `say` is told of the progress, a line at a time.

    Raises:
        RecipeError: if the recipe has no `[search]`.
        RunError: if `out` has other files or another search, or no candidate has a score.
        DataError, ModelError, RuntimeUnavailableError: if parts of the recipe cannot be used.
    """
    wanted = recipe.table(Search)
    if wanted is None:
        message = "the recipe has no `[search]`; add one, with the evaluator that ranks in `with`"
        raise RecipeError([recipe.document.problem(message, ())])
    plugins = plugins or load_plugins()
    directory = Path(out) if out is not None else Path("runs") / f"{recipe.run.name}-search"
    if not (directory / JOURNAL).exists():
        new_directory(directory)
    name = wanted.encoder or recipe.main_encoder
    prompts = _prompts(recipe, name, wanted)

    store = VectorCache(say=say) if recipe.run.cache else None
    prepared = returned(wanted.with_.prepare(), Preparation, wanted.with_, "prepare")
    encoder = build_encoder(recipe, name)
    journal = _Journal.open(directory / JOURNAL, _decides(recipe, plugins, encoder))
    taken_over = sum(template in journal.lines for template in prompts)
    if taken_over:
        say(f"taken over from {journal.path}: {taken_over} of {len(prompts)}")
    place = "the start"
    try:
        for index, (template, prompt) in enumerate(prompts.items()):
            if template in journal.lines:
                continue
            place = f"{index} of {len(prompts) - 1}: {' -> '.join(filter(None, _shown(prompt[0], index)))}"
            before = monotonic()
            tried = attrs.evolve(encoder, recipe=attrs.evolve(encoder.recipe, prompt=as_field(prompt)))
            if encoder.fit_texts:
                # Under another prompt they have other vectors.
                tried.fit_transform()
            evaluation = tried.evaluate(wanted.with_, name, store=store, plugins=plugins, prepared=prepared)
            journal.add(index, template, evaluation, monotonic() - before)
            say(f"{place}  {evaluation.primary:.2f}")
    except (Exception, KeyboardInterrupt) as error:
        error.add_note(f"stopped at {place}\nthe same command goes on from there, with {journal.path}")
        raise

    baseline, *ranked = (
        Candidate(*_shown(prompt[0], index), journal.lines[template].score, template)
        for index, (template, prompt) in enumerate(prompts.items())
    )
    # Python's sort is stable: ties are in file order.
    ranked.sort(key=lambda c: -math.inf if math.isnan(c.score) else c.score, reverse=True)
    if not ranked or math.isnan(ranked[0].score):
        raise RunError(
            "no candidate has a score; look at the candidates, and at the encoder's weights and precision"
        )
    ranking = Ranking(wanted.with_.name, baseline, tuple(ranked))
    say(verdict(ranking))
    winner = as_field(prompts[ranked[0].template])
    chosen = attrs.evolve(recipe.encoders[name], prompt=winner)
    write_atomic(
        directory / RESOLVED,
        resolved_toml(
            attrs.evolve(recipe.without(Search), encoders={**recipe.encoders, name: chosen}), directory
        ),
    )
    data = RunReport(
        name=recipe.run.name,
        status="finished",
        error=None,
        started=journal.started,
        seconds=sum(journal.lines[template].seconds for template in prompts),
        recipe_toml=resolved_toml(recipe, directory),
        manifest=_manifest(recipe, plugins, encoder),
        scores=journal.lines[ranked[0].template].scores,
        ranking=ranking,
    )
    return SearchResult(directory, write_report(directory, data, "search"), winner, ranking, taken_over)


def _manifest(recipe: Recipe, plugins: Plugins, encoder: Encoder) -> dict[str, Any]:
    source = recipe.document.file
    return {
        **describe(plugins, Path(source).resolve().parent if source else None),
        "seed": recipe.run.seed,
        "engine": dict(encoder.engine.describe()),
        "weights": dict(encoder.backbone.origin),
    }


def _shown(prompt: Prompt, index: int) -> tuple[str, str]:
    """Return sentences and words of a prompt's demonstrations; prompt 0 has none."""
    if index == 0:
        return "no demonstration", ""
    found = prompt.demonstrations
    if not found:
        return prompt.template or "", ""
    return " / ".join(one.text for one in found), " / ".join(one.word for one in found)


def _prompts(recipe: Recipe, name: str, wanted: Search) -> dict[str, tuple[Prompt, ...]]:
    """Return text -> the encoder's prompts, without a demonstration first, then the distinct candidates.

    Of several prompts each gets the demonstration.
    """
    encoder = recipe.encoders[name]
    bare = tuple(attrs.evolve(prompt, demonstration=None) for prompt in encoder.prompts)
    candidates = candidate_prompts(wanted.candidates, bare, encoder.pooler)[: wanted.limit]
    found: dict[str, tuple[Prompt, ...]] = {}
    for prompts in (bare, *candidates):
        resolved = (one.resolve(encoder.pooler) for one in prompts)
        found.setdefault(" | ".join(str(one.template) for one in resolved if one is not None), prompts)
    return found


def _decides(recipe: Recipe, plugins: Plugins, encoder: Encoder) -> dict[str, str]:
    """Return a hash of each factor other than the prompt that determines the scores."""
    table = unstructure(attrs.evolve(decisive(recipe), evaluate=()))
    for key in ("candidates", "limit"):
        table["search"].pop(key, None)
    how = {key: value for key, value in encoder.protocol().items() if key != "prompt"}
    versions = [("sentbed", __version__), *((p.distribution, p.version) for p in plugins.plugins)]
    parts = {
        "recipe": [table, how],
        "weights": encoder.backbone.origin,
        "versions": sorted(set(versions)),
    }
    return {
        what: hashlib.sha256(json.dumps(plain(part), sort_keys=True).encode()).hexdigest()
        for what, part in parts.items()
    }


@attrs.frozen
class _Line:
    """Entry of the journal: the result of one prompt."""

    score: float
    scores: tuple[Score, ...]
    seconds: float


@attrs.frozen(eq=False)
class _Journal:
    """Journal of scored prompts: a header with everything that determines scores, then a line per prompt."""

    path: Path
    started: str
    """Time of the first start, ISO 8601."""
    lines: dict[str, _Line]
    """Text of a prompt -> its entry."""

    @classmethod
    def open(cls, path: Path, decides: Mapping[str, str]) -> _Journal:
        """Read or create the journal. Raises `RunError` if it belongs to another search."""
        advice = "choose another `--out`, or remove it"
        try:
            content = read_file(path, LARGEST) if path.exists() else b""
        except (OSError, DataError) as error:
            raise RunError(f"`{path}` cannot be read: {reason_of(error)}; {advice}") from error
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and not content.startswith(_BEGINNING[: len(content)]):
            raise RunError(f"`{path}` cannot be read as the journal of a search; {advice}")
        if not whole:
            if content:
                os.truncate(path, 0)
            started = datetime.now(UTC).isoformat(timespec="seconds")
            _append(path, {"schema": SCHEMA, "started": started, "decides": decides})
            return cls(path, started, {})
        try:
            header, *lines = map(json.loads, whole.splitlines())
            other = [what for what in decides if header["decides"][what] != decides[what]]
            found = cls(path, str(header["started"]), {str(line["prompt"]): _line(line) for line in lines})
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(f"`{path}` cannot be read as the journal of a search; {advice}") from error
        if other:
            raise RunError(
                f"`{path}` is of a search with {' and '.join(f'another {what}' for what in other)}, "
                "whose scores cannot stand beside those of this one; choose another `--out`, or remove it"
            )
        if whole != content:
            # Killed while writing a line: this prompt is scored again.
            os.truncate(path, len(whole))
        return found

    def add(self, index: int, prompt: str, evaluation: Evaluation, seconds: float) -> None:
        """Append a prompt's scores; they are on disk when this returns.

        Raises:
            RunError: if the data differs from that of earlier scores, or the disk is full.
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
        found = _line(line)
        for known in list(self.lines.values())[:1]:
            if _data(known) != _data(found):
                raise RunError(
                    f"the evaluator's data is no longer that of the scores in `{self.path}`; "
                    "choose another `--out`, or put the data back"
                )
        _append(self.path, line)
        self.lines[prompt] = found


def _data(line: _Line) -> list[Any]:
    """Return the data that a line's scores were computed on, from their protocols."""
    return [(score.task, score.metric, score.evaluator_protocol.get("data")) for score in line.scores]


def _line(line: Mapping[str, Any]) -> _Line:
    """Parse a line; JSON has null for NaN."""
    scores = line["scores"]
    if not isinstance(scores, list):
        raise TypeError(f"found {scores!r:.40}, expected scores")
    return _Line(_number(line["score"]), tuple(map(score_of, scores)), _number(line["seconds"]))


def _number(value: Any) -> float:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"found {value!r:.40}, expected a number")
    return math.nan if value is None else float(value)


def _append(path: Path, line: Mapping[str, Any]) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(json.dumps(line).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(cannot_write(path, error)) from error
