"""The model card of an encoder: `README.md` on the Hugging Face hub."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from huggingface_hub import EvalResult, ModelCardData
from markupsafe import Markup
from sentbed import Encoder, __version__
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score
from sentbed.tools import (
    SCHEMA,
    catalog,
    components_of,
    load_plugins,
    plain,
    unstructure,
)
from sentbed_report.formatting import count, number
from sentbed_report.score_protocols import protocol_entries, shown
from sentbed_report.tables.markdown import escape, fenced, markdown_table

from sentbed_interop.citations import bibliography
from sentbed_interop.source_run import RunRecord, parts_of

METRICS: Mapping[str, str] = {
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "matthews": "matthews_correlation",
}
"""Metric -> its name on the hub, if the names differ."""

TASKS: Mapping[str, str] = {
    "spearman": "sentence-similarity",
    "pearson": "sentence-similarity",
    "accuracy": "text-classification",
    "f1": "text-classification",
    "matthews": "text-classification",
}
"""Metric -> the hub's task type. For all other metrics, it is `feature-extraction`."""

COMPARABLE = ("id", "aggregation", "precision", "data")
"""Keys of a score's protocol (how it was measured) that are repeated in the front matter.

The text of the card has the whole protocol."""

TEXTS = ("template", "demonstration")
"""Keys of a recipe whose values are texts, so that they are no paths even if they begin with `/`."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
"""Pattern of the ids of models and data sets on the hub."""


@attrs.frozen
class ExportFacts:
    """Facts for the card that are not in the encoder: the user's options, and the result of the export."""

    title: str | None
    license: str | None
    languages: tuple[str, ...]
    refused: str | None
    """Why the folder is not in sentence-transformers' format; None if it is in that format."""
    differences: tuple[str, ...]
    """Notes on how the folder in that format differs from the encoder, as Markdown."""


def render(
    encoder: Encoder,
    record: RunRecord | None,
    export: ExportFacts,
) -> str:
    """Return the model card; `record` is the run that trained the encoder, if it is known."""
    title = export.title
    if title is None and record is not None:
        title = record.name
    title = title or _plain_name(encoder)
    refused = None
    if export.refused is not None:
        refused = _markdown(export.refused)
    distributions = _distributions(encoder.recipe)

    text = (files("sentbed_interop") / "card.md.j2").read_text("utf-8")
    values = {
        "front": Markup(_front(encoder, record, title, export)),
        "title": title,
        "encoder": encoder,
        "facts": list(_facts(encoder)),
        "record": record,
        "license": export.license,
        "refused": refused,
        "version": __version__,
    }
    values["differences"] = [_markdown(text) for text in export.differences]
    values["recipe"] = tomli_w.dumps(recipe_table(encoder, record))
    values["needed"] = " ".join(distributions)
    values["foreign"] = sorted(distributions.keys() - {*catalog().values()})
    values |= _sections_of_run(encoder, record)
    card = _environment().from_string(text).render(values)
    return str(card).rstrip() + "\n"


def _sections_of_run(encoder: Encoder, record: RunRecord | None) -> dict[str, Any]:
    """Return the card's values that come from the run; without a run, from the encoder alone."""
    if record is None:
        return {
            "scores": [],
            "before": False,
            "protocols": [],
            "training": [],
            "versions": _versions({}, _distributions(encoder.recipe)),
            "citations": "\n\n".join(bibliography(encoder.recipe)),
            "uncited": False,
        }

    recipe = parts_of(record)
    distributions = _distributions(recipe or encoder.recipe)
    scores = record.scores
    return {
        "scores": list(_score_rows(scores)),
        "before": any(score.encoder.endswith(START) for score in scores),
        "protocols": list(_protocols(scores)),
        "training": list(_training(record)),
        "versions": _versions(record.manifest, distributions),
        "citations": "\n\n".join(bibliography(encoder.recipe, recipe)),
        "uncited": recipe is None,
    }


def _environment() -> Any:
    """Return the Jinja environment of the card, which escapes all values but `Markup` for Markdown."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escaped,
    )
    environment.filters |= {"code": _code, "table": _table}
    return environment


def _escaped(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return escape(str(value))


def _markdown(text: str) -> Markup:
    """Return Markdown as one line that is not escaped again."""
    return Markup(" ".join(text.split()).replace("<", "&lt;"))


def _code(text: str, language: str) -> Markup:
    """Return a block of code, which is not escaped."""
    return Markup(fenced(text, language))


def _table(
    heading: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
) -> Markup:
    """Return a table with escaped cells; the columns at the indices `numbers` are right-aligned."""
    headings = list(map(escape, heading))
    escaped_rows = []
    for row in rows:
        escaped_rows.append([escape(str(cell)) for cell in row])
    return Markup(markdown_table(headings, escaped_rows, numbers))


def recipe_table(encoder: Encoder, record: RunRecord | None) -> dict[str, Any]:
    """Return the resolved recipe of the run, or of the encoder alone, without this machine's paths."""
    if record is None:
        table = {"schema": SCHEMA, "encoder": unstructure(encoder.recipe)}
    else:
        table = dict(record.recipe)
    return dict(_public(table))


def _public(value: Any) -> Any:
    """Return a value of a recipe with each absolute path reduced to its last part."""
    if isinstance(value, Mapping):
        public = {}
        for key, item in value.items():
            public[key] = item
            if key not in TEXTS:
                public[key] = _public(item)
        return public
    if isinstance(value, list | tuple):
        return [_public(item) for item in value]
    if not isinstance(value, str):
        return value

    scheme, path = "", value
    if value.startswith("hub:"):
        scheme, path = "hub:", value.removeprefix("hub:")
    if not Path(path).is_absolute():
        return value
    return scheme + Path(path).name


def _model(encoder: Encoder) -> str | None:
    return encoder.recipe.backbone.model


def _plain_name(encoder: Encoder) -> str:
    """Return a name for the model, made of the names of the backbone's model and the pooler."""
    base = Path(_model(encoder) or encoder.recipe.backbone.name).name
    return f"{base}-{encoder.recipe.pooler.name}"


def _facts(encoder: Encoder) -> Iterator[tuple[str, object]]:
    """Yield name and value of each fact about the encoder's parts."""
    recipe, model = encoder.recipe, _public(_model(encoder))
    head = recipe.head
    backbone = recipe.backbone.name
    if model:
        backbone += f", of {model}"
    yield "backbone", backbone
    yield "pooler", recipe.pooler.name

    if head.projection is None:
        yield "projection", "none"
    else:
        widths = [str(width) for width in (*head.hidden, head.projection)]
        yield "projection", f"to {' and '.join(widths)}"
    if head.transform is not None and encoder.placed.fitted_on is not None:
        yield "transform", head.transform.name
    if head.normalize:
        yield "normalised", "to length 1"
    else:
        yield "normalised", "no"

    yield "width", encoder.width
    yield "length", f"at most {recipe.max_length} tokens of a sentence"
    for prompt in filter(None, recipe.resolved_prompts):
        for name, value in prompt.describe().items():
            yield f"prompt, {name}", value


def _front(
    encoder: Encoder,
    record: RunRecord | None,
    title: str,
    export: ExportFacts,
) -> str:
    """Return the front matter in YAML, which the hub reads."""
    library = "sentbed"
    if export.refused is None:
        library = "sentence-transformers"
    base_model = None
    model = _model(encoder)
    if model and encoder.recipe.backbone.pretrained and HUB_ID.fullmatch(model):
        base_model = model

    results: list[EvalResult] = []
    datasets: list[str] = []
    if record is not None:
        results = list(_results(record))
        datasets = list(dict.fromkeys(_hub_data(record.recipe.get("stage", ()))))
    model_name = None
    if results:
        model_name = title

    tags = [library, "sentbed", "sentence-similarity", "feature-extraction"]
    data = ModelCardData(
        license=export.license,
        language=list(export.languages) or None,
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=list(dict.fromkeys(tags)),
        base_model=base_model,
        datasets=datasets or None,
        model_name=model_name,
        eval_results=results or None,
    )
    return data.to_yaml()


def _results(record: RunRecord) -> Iterator[EvalResult]:
    """Yield the scores after training as entries of the front matter."""
    for score in record.scores:
        if score.encoder.endswith(START) or not math.isfinite(score.value):
            continue

        protocol = plain({**score.protocol["encoder"], **score.evaluator_protocol})
        split = None
        if "split" in protocol:
            split = shown(protocol["split"])
        words = re.sub(r"[^\w.-]+", "-", score.task.lower(), flags=re.ASCII)
        comparable = {key: protocol[key] for key in COMPARABLE if key in protocol}
        metric = score.metric
        yield EvalResult(
            task_type=TASKS.get(metric, "feature-extraction"),
            task_name=score.evaluator,
            dataset_type=words.strip("-") or "data",
            dataset_name=score.task,
            dataset_config=score.evaluator,
            dataset_split=split,
            metric_type=METRICS.get(metric, metric),
            metric_value=round(score.value, 4),
            metric_name=f"{metric} ({score.protocol_name})",
            metric_args=comparable,
        )


def _hub_data(table: Any) -> Iterator[str]:
    """Yield the ids of data sets on the hub that a table names, at any depth."""
    if isinstance(table, Mapping):
        table = list(table.values())
    if isinstance(table, list | tuple):
        for item in table:
            yield from _hub_data(item)
    if isinstance(table, str) and table.startswith("hub:"):
        # It is `hub:OWNER/NAME`, or a file in this repository: `hub:OWNER/NAME/FILE`.
        dataset = "/".join(table.removeprefix("hub:").split("/")[:2])
        if HUB_ID.fullmatch(dataset):
            yield dataset


def _score_rows(scores: Sequence[Score]) -> Iterator[tuple[object, ...]]:
    """Yield a table row for each score, with the main entries of its protocol."""
    for score in scores:
        protocol = score.evaluator_protocol
        value = number(score.value, score_digits([score.value]))
        split = shown(plain(protocol.get("split", "–")))
        precision = score.protocol["encoder"].get("precision", "–")
        yield (
            score.encoder,
            score.evaluator,
            score.task,
            score.metric,
            value,
            score.protocol_name or "–",
            split,
            precision,
            _short(protocol.get("data")),
        )


def _protocols(scores: Sequence[Score]) -> Iterator[str]:
    """Yield a line for each evaluator, metric and protocol, with the entries that all its scores share.

    If an encoder has several scores in a task, their second scores form a group of their own, and so on.
    """
    groups: dict[tuple[str, str, str, int], list[dict[str, str]]] = defaultdict(list)
    repetitions: Counter[tuple[str, str, str, str, str]] = Counter()
    for score in scores:
        measured = (score.evaluator, score.metric, score.protocol_name)
        of_task = (*measured, score.encoder, score.task)
        repetitions[of_task] += 1
        groups[*measured, repetitions[of_task]].append(protocol_entries(score))

    for (evaluator, metric, *_), (first, *others) in groups.items():
        shared = []
        for name, value in first.items():
            if all(entries.get(name) == value for entries in others):
                shared.append(f"{name} = {value}")
        yield f"{evaluator}, {metric}: {'; '.join(shared) or 'not stated'}"


def _training(record: RunRecord) -> Iterator[tuple[object, ...]]:
    """Yield a table row for each stage: name; data, its location, number of rows and hash; loss; length."""
    for stage in record.recipe.get("stage", ()):
        locations: list[str] = []
        sources = []
        for table in _tables(stage["data"]):
            if "use" in table:
                sources.append(str(table["use"]))
            locations += map(_public, filter(_is_location, table.values()))
        data, *parts = sources
        if parts:
            data += f" of {', '.join(parts)}"
        length = "–"
        for key in ("steps", "epochs"):
            if key in stage:
                length = count(stage[key], key.removesuffix("s"))

        facts = record.manifest.get("data", {}).get(stage["name"], {})
        rows = "–"
        if "rows" in facts:
            rows = f"{facts['rows']:,}"
        digest = _short(facts.get("sha256"))
        loss = stage["loss"]["use"]
        length += f", {stage['batch_size']} rows per step"
        location = ", ".join(locations) or "–"
        yield stage["name"], data, location, rows, digest, loss, length


def _tables(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a table and all tables in it, at any depth."""
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tables(item)


def _is_location(value: Any) -> bool:
    """Whether a value is a location of data: an absolute path, or one with a scheme such as `hub:`."""
    if not isinstance(value, str):
        return False
    return Path(value).is_absolute() or value.startswith(("pkg:", "data:", "hub:"))


def _short(digest: Any) -> str:
    """Return the first twelve characters of a hash, or of each hash in a list; a dash if there is no hash."""
    if isinstance(digest, list | tuple):
        return ", ".join(map(_short, digest))
    if not digest:
        return "–"
    return shown(plain(digest))[:12]


def _versions(
    manifest: Mapping[str, Any], installed: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the versions of distributions and libraries.

    Versions that the run recorded take the place of installed versions. Libraries that the run did not record are
    left out.
    """
    versions = {"sentbed": __version__, **installed}
    for plugin in manifest.get("plugins", ()):
        if plugin["distribution"] in versions:
            versions[plugin["distribution"]] = str(plugin["version"])
    libraries = manifest.get("libraries", {})
    for name in ("torch", "transformers", "tokenizers"):
        if name in libraries:
            versions[name] = libraries[name]
    return list(versions.items())


def _distributions(recipe: Any) -> dict[str, str]:
    """Return the distributions of a recipe's components and of the runtime `cpu`, with the installed versions."""
    plugins = load_plugins()
    infos = [plugins.origin(cls) for cls in components_of(recipe)]
    infos += plugins.offers.get(("runtime", "cpu"), [])
    versions = {info.distribution: info.version for info in infos if info is not None}
    return dict(sorted(versions.items()))
