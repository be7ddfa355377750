"""The model card of an encoder: `README.md` on the Hugging Face hub."""

from __future__ import annotations

import math
import re
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
from sentbed.tools import SCHEMA, plain, unstructure
from sentbed_report.formatting import number
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
    from jinja2 import Environment, StrictUndefined

    title = _plain_name(encoder)
    recipe = None
    scores: tuple[Score, ...] = ()
    if record is not None:
        title = record.name
        recipe = parts_of(record)
        scores = record.scores

    refused = None
    if export.refused is not None:
        refused = _markdown(export.refused)
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escaped,
    )
    environment.filters |= {"code": _code, "table": _table}
    text = (files("sentbed_interop") / "card.md.j2").read_text("utf-8")
    card = environment.from_string(text).render(
        front=Markup(_front(encoder, record, title, export)),
        title=title,
        width=encoder.width,
        max_length=encoder.recipe.max_length,
        version=__version__,
        record=record,
        license=export.license,
        refused=refused,
        differences=[_markdown(note) for note in export.differences],
        scores=list(_score_rows(scores)),
        training=list(_training(record)),
        recipe=tomli_w.dumps(recipe_table(encoder, record)),
        citations="\n\n".join(bibliography(encoder.recipe, recipe)),
    )
    return f"{card.rstrip()}\n"


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


def _table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table with escaped cells."""
    escaped_rows = []
    for row in rows:
        escaped_rows.append([escape(str(cell)) for cell in row])
    return Markup(markdown_table(heading, escaped_rows, ()))


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


def _plain_name(encoder: Encoder) -> str:
    """Return a name for the model, made of the names of the backbone's model and the pooler."""
    backbone = encoder.recipe.backbone
    base = Path(backbone.model or backbone.name).name
    return f"{base}-{encoder.recipe.pooler.name}"


def _front(
    encoder: Encoder,
    record: RunRecord | None,
    title: str,
    export: ExportFacts,
) -> str:
    """Return the front matter in YAML, which the hub reads."""
    tags = ["sentbed", "sentence-similarity", "feature-extraction"]
    library = "sentbed"
    if export.refused is None:
        library = "sentence-transformers"
        tags.insert(0, library)
    backbone = encoder.recipe.backbone
    base_model = None
    if backbone.pretrained and HUB_ID.fullmatch(backbone.model or ""):
        base_model = backbone.model

    results: list[EvalResult] = []
    datasets: list[str] = []
    if record is not None:
        results = list(_results(record.scores))
        datasets = list(dict.fromkeys(_hub_data(record.recipe.get("stage", ()))))
    model_name = None
    if results:
        model_name = title
    data = ModelCardData(
        license=export.license,
        language=list(export.languages) or None,
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=tags,
        base_model=base_model,
        datasets=datasets or None,
        model_name=model_name,
        eval_results=results or None,
    )
    return data.to_yaml()


def _results(scores: Iterable[Score]) -> Iterator[EvalResult]:
    """Yield the scores after training as entries of the front matter."""
    for score in scores:
        if score.encoder.endswith(START) or not math.isfinite(score.value):
            continue

        protocol = plain({**score.protocol["encoder"], **score.evaluator_protocol})
        split = None
        if "split" in protocol:
            split = shown(protocol["split"])
        words = re.sub(r"[^\w.-]+", "-", score.task.lower(), flags=re.ASCII)
        comparable = {key: protocol[key] for key in COMPARABLE if key in protocol}
        yield EvalResult(
            task_type="feature-extraction",
            task_name=score.evaluator,
            dataset_type=words.strip("-") or "data",
            dataset_name=score.task,
            dataset_config=score.evaluator,
            dataset_split=split,
            metric_type=METRICS.get(score.metric, score.metric),
            metric_value=round(score.value, 4),
            metric_name=f"{score.metric} ({score.protocol_name})",
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


def _score_rows(scores: Iterable[Score]) -> Iterator[tuple[object, ...]]:
    """Yield a table row for each score, with its whole protocol."""
    for score in scores:
        value = number(score.value, score_digits([score.value]))
        entries = protocol_entries(score).items()
        protocol = "; ".join(f"{name} = {entry}" for name, entry in entries)
        yield (
            score.encoder,
            score.evaluator,
            score.task,
            score.metric,
            value,
            protocol,
        )


def _training(record: RunRecord | None) -> Iterator[tuple[object, ...]]:
    """Yield a table row for each stage: its name, data, their number of rows and hash, and loss."""
    if record is None:
        return
    for stage in record.recipe.get("stage", ()):
        facts = record.manifest.get("data", {}).get(stage["name"], {})
        yield (
            stage["name"],
            stage["data"]["use"],
            facts.get("rows", "–"),
            facts.get("sha256", "–"),
            stage["loss"]["use"],
        )
