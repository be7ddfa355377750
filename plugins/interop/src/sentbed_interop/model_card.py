"""The model card of an encoder, the hub's `README.md`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
from sentbed import Encoder, __version__
from sentbed.helpers import score_digits
from sentbed.protocols import START, Score
from sentbed.tools import catalog, plain
from sentbed_report.comparability import protocol_entries, shown
from sentbed_report.formatting import number
from sentbed_report.tables.markdown import escape, markdown_table

from sentbed_interop.citations import bibliography, parts_in
from sentbed_interop.source_run import RunRecord, parts_of

METRICS: Mapping[str, str] = {
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "matthews": "matthews_correlation",
}
"""The hub's names of metrics that differ from ours."""
TASKS: Mapping[str, str] = {
    "spearman": "sentence-similarity",
    "pearson": "sentence-similarity",
    "accuracy": "text-classification",
    "f1": "text-classification",
    "matthews": "text-classification",
}
"""The hub's task type for each metric; for any other metric, `feature-extraction`."""
COMPARABLE = ("id", "aggregation", "precision", "data")
"""Keys of a protocol to repeat in the front matter; the whole protocol is in the text."""
TEXTS = ("template", "demonstration")
"""Keys of texts, in which `/` does not begin a path."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@attrs.frozen
class Stated:
    """Facts for the card that the encoder itself does not have."""

    title: str | None
    license: str | None
    languages: tuple[str, ...]
    refused: str | None
    """Why the folder is not in sentence-transformers' format; None if it is."""
    differences: tuple[str, ...]
    """Differences from the encoder in that format, as Markdown."""


def render(encoder: Encoder, record: RunRecord | None, stated: Stated) -> str:
    """Return the card."""
    import tomli_w
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def escaped(value: object) -> object:
        return value if isinstance(value, Markup) else escape(str(value))

    def markdown(text: str) -> Markup:
        return Markup(" ".join(text.split()).replace("<", "&lt;"))

    def code(text: str, language: str) -> Markup:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return Markup("{0}{1}\n{2}\n{0}").format(Markup(fence), language, Markup(text.rstrip()))

    def table(
        heading: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()
    ) -> Markup:
        cells = ([escape(str(cell)) for cell in row] for row in rows)
        return Markup(markdown_table([escape(name) for name in heading], cells, numbers))

    # The page is Markdown: `escaped` escapes for it.
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=escaped,
    )
    environment.filters |= {"code": code, "table": table}
    called = stated.title or (record.name if record else _plain_name(encoder))
    recipe = parts_of(record) if record else None
    own = _distributions(encoder.recipe)
    text = (files("sentbed_interop") / "card.md.j2").read_text("utf-8")
    card = environment.from_string(text).render(
        front=Markup(_front(encoder, record, called, stated)),
        title=called,
        encoder=encoder,
        facts=list(_facts(encoder)),
        record=record,
        license=stated.license,
        refused=None if stated.refused is None else markdown(stated.refused),
        differences=[markdown(text) for text in stated.differences],
        scores=list(_score_rows(record.scores)) if record else [],
        before=any(score.encoder.endswith(START) for score in record.scores) if record else False,
        protocols=list(_protocols(record.scores)) if record else [],
        training=list(_training(record)) if record else [],
        recipe=tomli_w.dumps(recipe_table(encoder, record)),
        versions=_versions(record, _distributions(recipe or encoder.recipe)),
        needed=" ".join(own),
        foreign=[name for name in own if name not in catalog()],
        citations="\n\n".join(bibliography(encoder.recipe, *([recipe] if recipe else []))),
        uncited=record is not None and recipe is None,
        version=__version__,
    )
    return card.rstrip() + "\n"


def recipe_table(encoder: Encoder, record: RunRecord | None) -> dict[str, Any]:
    """Return the resolved recipe of the run, or of the encoder alone, without this machine's paths."""
    from sentbed.tools import SCHEMA, unstructure

    table = {"schema": SCHEMA, "encoder": unstructure(encoder.recipe)} if record is None else record.recipe
    return dict(_public(table))


def _public(value: Any) -> Any:
    """Return the value with each absolute path reduced to its last part."""
    if isinstance(value, Mapping):
        return {key: item if key in TEXTS else _public(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_public(item) for item in value]
    if isinstance(value, str):
        scheme, path = ("hub:", value[4:]) if value.startswith("hub:") else ("", value)
        return scheme + Path(path).name if Path(path).is_absolute() else value
    return value


def _model(encoder: Encoder) -> str | None:
    return encoder.recipe.backbone.traits.model


def _plain_name(encoder: Encoder) -> str:
    base = Path(_model(encoder) or encoder.recipe.backbone.name).name
    return f"{base}-{encoder.recipe.pooler.name}"


def _facts(encoder: Encoder) -> Iterator[tuple[str, object]]:
    recipe, model = encoder.recipe, _public(_model(encoder))
    head = recipe.head
    yield "backbone", recipe.backbone.name + (f", of {model}" if model else "")
    yield "pooler", recipe.pooler.name
    widths = " and ".join(str(width) for width in (*head.hidden, head.projection) if width is not None)
    yield "projection", f"to {widths}" if widths else "none"
    if head.transform is not None and encoder.placed.fitted_on is not None:
        yield "transform", head.transform.name
    yield "normalised", "to length 1" if head.normalize else "no"
    yield "width", encoder.width
    yield "length", f"at most {recipe.max_length} tokens of a sentence"
    for prompt in filter(None, recipe.resolved_prompts):
        for name, value in prompt.describe().items():
            yield f"prompt, {name}", value


def _front(encoder: Encoder, record: RunRecord | None, title: str, stated: Stated) -> str:
    from huggingface_hub import ModelCardData

    library = "sentence-transformers" if stated.refused is None else "sentbed"
    model = _model(encoder)
    pretrained = encoder.recipe.backbone.traits.pretrained
    results = list(_results(record)) if record else []
    data = ModelCardData(
        license=stated.license,
        language=list(stated.languages) or None,
        library_name=library,
        pipeline_tag="sentence-similarity",
        tags=list(dict.fromkeys([library, "sentbed", "sentence-similarity", "feature-extraction"])),
        base_model=model if model and pretrained and HUB_ID.fullmatch(model) else None,
        datasets=list(dict.fromkeys(_hub_data(record.recipe.get("stage", ())))) if record else None,
        model_name=title if results else None,
        eval_results=results or None,
    )
    if not data.datasets:
        data.datasets = None
    return data.to_yaml()


def _results(record: RunRecord) -> Iterator[Any]:
    from huggingface_hub import EvalResult

    for score in record.scores:
        if score.encoder.endswith(START) or not math.isfinite(score.value):
            continue
        protocol = plain({**score.protocol["encoder"], **score.evaluator_protocol})
        yield EvalResult(
            task_type=TASKS.get(score.metric, "feature-extraction"),
            task_name=score.evaluator,
            dataset_type=re.sub(r"[^\w.-]+", "-", score.task.lower(), flags=re.ASCII).strip("-") or "data",
            dataset_name=score.task,
            dataset_config=score.evaluator,
            dataset_split=shown(protocol["split"]) if "split" in protocol else None,
            metric_type=METRICS.get(score.metric, score.metric),
            metric_value=round(score.value, 4),
            metric_name=f"{score.metric} ({score.protocol_name})",
            metric_args={key: protocol[key] for key in COMPARABLE if key in protocol},
        )


def _hub_data(table: Any) -> Iterator[str]:
    """Yield the ids of hub data sets in these tables."""
    if isinstance(table, str):
        # `hub:OWNER/NAME`, or a file in its repository: `hub:OWNER/NAME/FILE`.
        dataset = "/".join(table.removeprefix("hub:").split("/")[:2])
        if table.startswith("hub:") and HUB_ID.fullmatch(dataset):
            yield dataset
    elif isinstance(table, Mapping | list | tuple):
        for item in table.values() if isinstance(table, Mapping) else table:
            yield from _hub_data(item)


def _score_rows(scores: Sequence[Score]) -> Iterator[tuple[object, ...]]:
    for score in scores:
        protocol = score.evaluator_protocol
        yield (
            score.encoder,
            score.evaluator,
            score.task,
            score.metric,
            number(score.value, score_digits([score.value])),
            score.protocol_name or "–",
            shown(plain(protocol.get("split", "–"))),
            score.protocol["encoder"].get("precision", "–"),
            _short(protocol.get("data")),
        )


def _protocols(scores: Sequence[Score]) -> Iterator[str]:
    """Yield the entries that scores of an evaluator and metric share; what is scored twice stands apart."""
    groups: dict[tuple[str, str, str, int], list[dict[str, str]]] = {}
    times: dict[tuple[str, str, str, str, str], int] = {}
    for score in scores:
        about = (score.evaluator, score.metric, score.protocol_name)
        place = (*about, score.encoder, score.task)
        times[place] = times.get(place, 0) + 1
        groups.setdefault((*about, times[place]), []).append(protocol_entries(score))
    for (evaluator, metric, *_), (first, *others) in groups.items():
        shared = []
        for name, value in first.items():
            if all(entries.get(name) == value for entries in others):
                shared.append(f"{name} = {value}")
        yield f"{evaluator}, {metric}: {'; '.join(shared) or 'not stated'}"


def _training(record: RunRecord) -> Iterator[tuple[object, ...]]:
    for stage in record.recipe.get("stage", ()):
        data = stage["data"]
        found = record.manifest.get("data", {}).get(stage["name"], {})
        tables = list(_tables(data))
        places = [_public(value) for table in tables for value in table.values() if _is_place(value)]
        first, *parts = (str(table["use"]) for table in tables if "use" in table)
        length = f"{stage['epochs']} epochs" if "epochs" in stage else f"{stage.get('steps', '–')} steps"
        yield (
            stage["name"],
            f"{first} of {', '.join(parts)}" if parts else first,
            ", ".join(places) or "–",
            f"{found['rows']:,}" if "rows" in found else "–",
            _short(found.get("sha256")),
            stage["loss"]["use"],
            f"{length} of {stage['batch_size']} rows",
        )


def _tables(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a table and all tables in it."""
    if isinstance(value, Mapping):
        yield value
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tables(item)


def _is_place(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    return Path(value).is_absolute() or value.startswith(("pkg:", "data:", "hub:"))


def _short(digest: Any) -> str:
    """Return the first twelve characters of a hash, or of each of several."""
    if isinstance(digest, list | tuple):
        return ", ".join(map(_short, digest))
    return shown(plain(digest))[:12] if digest else "–"


def _versions(record: RunRecord | None, used: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the distributions of the parts, with their versions in the run."""
    manifest = record.manifest if record else {}
    plugins = {one["distribution"]: str(one["version"]) for one in manifest.get("plugins", ())}
    libraries = manifest.get("libraries", {})
    named = {name: libraries[name] for name in ("torch", "transformers", "tokenizers") if name in libraries}
    found = {"sentbed": __version__, **used}
    return list(({name: plugins.get(name, version) for name, version in found.items()} | named).items())


def _distributions(*parts: Any) -> dict[str, str]:
    """Return what to install for these parts and the runtime `cpu`, with the version that is installed."""
    from sentbed.tools import load_plugins

    plugins = load_plugins()
    infos = [plugins.origin(type(one)) for part in parts for one in parts_in(part)]
    infos.append(plugins.components.get(("runtime", "cpu")))
    return dict(sorted({info.distribution: info.version for info in infos if info is not None}.items()))
