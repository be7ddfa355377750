"""The folder for the hub: a run's encoder, its card, and what the card claims."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sentbed
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from sentbed import Encoder, ModelError, PluginError, RunError
from sentbed._registry.registry import load_plugins
from sentbed.kinds import KINDS
from sentbed.protocols import (
    Component,
)
from sentbed_interop.citations import bibliography
from sentbed_interop.export_and_import import export_encoder
from sentbed_interop.source_run import record_of

RECIPE = """
schema = 1
[run]
name = "pets_and-rain"
[runtime]
use = "cpu"
[encoder]
max_length = 24
backbone = { use = "bert", init = "random", size = "tiny", vocab_size = 800 }
pooler = { use = "mean" }
[[stage]]
name = "triplets"
data = { use = "triplets", path = "PLACE/triplets.csv" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-4 }
schedule = { use = "constant" }
batch_size = 4
steps = 2
[[evaluate]]
use = "sts"
path = "PLACE/sts.tsv"
at = ["start", "end"]
[[evaluate]]
use = "geometry"
path = "PLACE/sts.tsv"
"""
PAIRS = [
    ("The cat sleeps.", "A cat is asleep.", 4.5),
    ("The cat sleeps.", "Rain falls on the hill.", 0.5),
    ("A dog barks.", "The dog is barking.", 4.8),
    ("A dog barks.", "Two birds sing.", 1.5),
    ("Two birds sing.", "Birds are singing.", 4.2),
    ("Rain falls.", "It is raining.", 4.9),
]
TEXTS = ["The cat sleeps.", "Rain falls on the hill and does not end.", ""]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two steps, evaluated before and after."""
    place = tmp_path_factory.mktemp("secret-place")
    triplets = ["sent0,sent1,hard_neg"]
    scored = ["sentence1\tsentence2\tscore"]
    for row, (first, second, score) in enumerate(PAIRS):
        _, other, _ = PAIRS[row - 2]
        triplets.append(f"{first},{second},{other}")
        scored.append(f"{first}\t{second}\t{score}")
    triplets_file = place / "triplets.csv"
    triplets_file.write_text("\n".join(triplets))
    sts_file = place / "sts.tsv"
    sts_file.write_text("\n".join(scored))
    recipe = place / "recipe.toml"
    recipe.write_text(RECIPE.replace("PLACE", str(place)))
    directory = place / "run"
    sentbed.run(sentbed.load_recipe(recipe), directory)
    return directory


@pytest.fixture(scope="module")
def folder(run):
    target = run.parent / "folder"
    export_encoder(
        run / "encoder", target, "hub", ["license=apache-2.0", "language=en"]
    )
    return target


@pytest.fixture
def copied(run, tmp_path):
    return Path(shutil.copytree(run, tmp_path / "run"))


def change_json(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def body(folder):
    return ModelCard((folder / "README.md").read_text()).text


def rendered(folder):
    return MarkdownIt("commonmark").enable("table").render(body(folder))


def rows_of(html, heading):
    """The cells of the table under a heading."""
    _, _, section = html.partition(f"<h2>{heading}</h2>")
    section, _, _ = section.partition("<h2>")
    _, _, table = section.partition("<tbody>")
    table, _, _ = table.partition("</tbody>")
    rows = []
    for row in table.split("</tr>"):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
        if cells:
            rows.append(cells)
    return rows


def python_of(folder):
    blocks = []
    for token in MarkdownIt().parse(body(folder)):
        if token.type == "fence" and token.info == "python":
            blocks.append(token.content)
    return blocks


def test_front_matter_is_what_the_hub_reads(folder, run):
    data = ModelCard.load(folder / "README.md").data
    assert data.license == "apache-2.0"
    assert data.language == ["en"]
    assert data.library_name == "sentence-transformers"
    assert data.model_name == "pets_and-rain"
    assert data.base_model is None

    scores = json.loads((run / "report.json").read_text())["scores"]
    after_training = [score for score in scores if score["encoder"] == "encoder"]
    assert len(data.eval_results) > 2

    for result, score in zip(data.eval_results, after_training, strict=True):
        protocol = score["protocol"]["evaluator"]
        assert result.metric_value == pytest.approx(score["value"], abs=1e-4)
        assert result.metric_args["id"] == protocol["id"]
        assert result.metric_args["data"] == protocol["data"]
        assert result.dataset_name == score["task"]


def test_the_text_has_every_score_with_its_protocol_and_every_stage_with_its_data(
    folder, run
):
    html = rendered(folder)
    scores = json.loads((run / "report.json").read_text())["scores"]
    rows = rows_of(html, "Scores")
    for row, score in zip(rows, scores, strict=True):
        names = [score[key] for key in ("encoder", "evaluator", "task", "metric")]
        assert row[:4] == names
        value = float(row[4].replace("−", "-"))
        assert value == pytest.approx(score["value"], abs=6e-3)
        protocol = score["protocol"]["evaluator"]
        assert f"id = {protocol['id']}" in row[5]
        assert f"data = {protocol['data']}" in row[5]
    manifest = json.loads((run / "manifest.json").read_text())
    digest = manifest["data"]["triplets"]["sha256"]
    expected = ["triplets", "triplets", "6", digest, "info-nce"]
    assert rows_of(html, "Training") == [expected]
    assert "licence" not in html


def test_the_recipe_is_the_run_without_places_of_this_machine(folder, run):
    recipe = tomllib.loads((folder / "recipe.toml").read_text())
    resolved = tomllib.loads((run / "resolved.toml").read_text())
    assert recipe["evaluate"][0]["path"] == "sts.tsv"
    assert recipe["stage"][0]["loss"] == resolved["stage"][0]["loss"]

    _, _, fenced = body(folder).partition("```toml\n")
    fenced, _, _ = fenced.partition("```")
    assert tomllib.loads(fenced) == recipe

    files = 0
    for file in folder.rglob("*"):
        if file.suffix in {".md", ".toml", ".json"}:
            assert "secret-place" not in file.read_text(), file
            files += 1
    assert files > 5


def test_the_code_of_the_card_runs(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    (block,) = python_of(folder)
    names = {}
    exec(block, names)
    texts = ["A man plays a guitar.", "Someone is making music."]
    expected = Encoder.load(run / "encoder").encode(texts)
    np.testing.assert_allclose(names["vectors"], expected, atol=1e-5)


def test_what_sentence_transformers_cannot_compute_is_there_for_sentbed(
    make_encoder, tmp_path, monkeypatch
):
    saved = make_encoder(
        "two-layers",
        backbone={"use": "bert", "init": "random", "size": "tiny", "vocab_size": 800},
        pooler={"use": "mean-first-last"},
        max_length=24,
    )
    target = tmp_path / "folder"
    export_encoder(saved, target, "hub")
    assert ModelCard.load(target / "README.md").data.library_name == "sentbed"
    assert (
        "cannot load this folder: the pooler <code>mean-first-last</code>"
        in rendered(target)
    )

    vectors = Encoder.load(target).encode(TEXTS)
    expected = Encoder.load(saved).encode(TEXTS)
    np.testing.assert_array_equal(vectors, expected)
    monkeypatch.chdir(target)
    (block,) = python_of(target)
    exec(block, names := {})
    assert names["vectors"].shape == (2, 128)


def test_an_encoder_without_a_run_says_so(tiny_bert, tmp_path):
    export_encoder(tiny_bert, tmp_path / "folder", "hub")
    data = ModelCard.load(tmp_path / "folder" / "README.md").data
    html = rendered(tmp_path / "folder")
    assert data.eval_results is None
    assert html.count("the encoder was exported without its run") == 2
    assert "No licence has been chosen" in html
    assert "<h1>bert-mean</h1>" in html


def test_a_hub_model_and_hub_data_are_named(run, copied, tmp_path):
    named = ('init = "random"', 'init = "pretrained"\nmodel = "someone/tiny-bert"')
    resolved = (copied / "resolved.toml").read_text().replace(*named)
    resolved = re.sub(
        r'path = "/.*triplets.csv"', 'path = "hub:someone/triplets"', resolved
    )
    (copied / "resolved.toml").write_text(resolved)
    file = copied / "encoder" / "encoder.toml"
    file.write_text(file.read_text().replace(*named))
    export_encoder(copied / "encoder", tmp_path / "folder", "hub")
    data = ModelCard.load(tmp_path / "folder" / "README.md").data
    assert data.base_model == "someone/tiny-bert"
    assert data.datasets == ["someone/triplets"]


NASTY = "a|b <img src=x onerror=alert(1)> `c` *d* {{ e }} [f](javascript:g)"


def test_names_stay_text(copied, tmp_path):
    def change(report):
        report["name"] = report["scores"][0]["task"] = NASTY
        report["scores"][-1]["task"] = "---\nlicense: mit"
        report["scores"][0]["protocol"]["evaluator"]["columns"] = ["<b>", "|"]

    change_json(copied / "report.json", change)
    recipe = (copied / "resolved.toml").read_text()
    (copied / "resolved.toml").write_text(
        recipe.replace("[expected]", "# ```\n[expected]")
    )
    with (copied / "resolved.toml").open("a") as stream:
        stream.write(
            '\n[expected.sts]\nvalue = 1.0\ndecides = false\nsource = "```\\n<script>"\n'
        )
    export_encoder(copied / "encoder", tmp_path / "folder", "hub", ["license=mit"])
    html = rendered(tmp_path / "folder")
    assert not re.search(r"<(img|script|b|a)\b", html)

    cells = rows_of(html, "Scores")
    shown = NASTY.replace("<", "&lt;").replace(">", "&gt;")
    assert cells[0][2] == shown
    assert len({len(row) for row in cells}) == 1
    assert f"<h1>{shown}</h1>" in html

    card = ModelCard.load(tmp_path / "folder" / "README.md")
    assert card.data.model_name == NASTY
    assert card.data.license == "mit"


def test_what_is_no_run_is_refused(tiny_bert, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="is not a run directory: "):
        export_encoder(
            tiny_bert, tmp_path / "folder", "hub", [f"run={tmp_path / 'empty'}"]
        )


def test_a_moved_encoder_finds_its_run_by_the_option(run, tmp_path):
    shutil.copytree(run / "encoder", tmp_path / "moved")
    moved = Encoder.load(tmp_path / "moved")
    assert record_of(moved) is None

    record = record_of(moved, str(run))
    assert record is not None
    assert record.name == "pets_and-rain"


@pytest.fixture
def two(copied, tmp_path):
    """The run with its encoder twice, as `en` and `zh`."""
    encoder = (copied / "encoder").rename(tmp_path / "one")
    for name in ("en", "zh"):
        shutil.copytree(encoder, copied / "encoder" / name)
    text = (copied / "resolved.toml").read_text()
    encoder_tables = re.search(
        r"^\[encoder\](.|\n(?!\[(?!encoder)))*", text, re.MULTILINE
    )
    assert encoder_tables is not None

    one = encoder_tables[0]
    twice = ""
    for name in ("en", "zh"):
        named = f"[encoders.{name}"
        twice += re.sub(r"^\[encoder", named, one, flags=re.MULTILINE)
        twice += "\n"
    (copied / "resolved.toml").write_text(text.replace(one, twice))

    def rename(report):
        names = ["en@start", "zh", "en+zh", "en"]
        scores = report["scores"][: len(names)]
        for score, name in zip(scores, names, strict=True):
            score["encoder"] = name
        report["scores"] = scores

    change_json(copied / "report.json", rename)
    return copied


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("en", ["en@start", "en+zh", "en"]),
        ("zh", ["zh", "en+zh"]),
    ],
)
def test_one_of_several_encoders_gets_its_own_scores(name, expected, two):
    record = record_of(Encoder.load(two / "encoder" / name))
    assert record is not None
    assert [score.encoder for score in record.scores] == expected


def test_an_encoder_that_may_be_any_of_several_is_refused(two, tmp_path):
    moved = shutil.copytree(two / "encoder" / "zh", tmp_path / "moved")
    with pytest.raises(ModelError, match="the run has the encoders `en`, `zh`; give"):
        record_of(Encoder.load(moved), str(two))


TEMPLATE = "/query {text}\n- no note\n/x"


def test_a_template_stays_as_it_is(two, tmp_path):
    with (two / "resolved.toml").open("a") as file:
        file.write(f"\n[encoders.zh.prompt]\ntemplate = {json.dumps(TEMPLATE)}\n")
    export_encoder(two / "encoder" / "zh", tmp_path / "folder", "hub")
    recipe = tomllib.loads((tmp_path / "folder" / "recipe.toml").read_text())
    assert recipe["encoders"]["zh"]["prompt"]["template"] == TEMPLATE


def test_a_folder_that_would_give_other_vectors_is_an_error(
    tiny_bert, tmp_path, monkeypatch
):
    from sentbed_interop._torch import sentence_transformers_folder

    monkeypatch.setattr(sentence_transformers_folder, "TOLERANCE", -1.0)
    with pytest.raises(ModelError, match="the folder would give"):
        export_encoder(tiny_bert, tmp_path / "folder", "hub")
    assert not (tmp_path / "folder").exists()


def part(*cites):
    import attrs

    return attrs.make_class(
        "Part",
        [],
        bases=(Component,),
        class_body={"cites": cites},
    )()


def test_a_part_cites_by_key_or_brings_its_own_entry():
    entry = "@misc{me2026, title = {Mine}}"
    first, second = bibliography(
        part("gao2021simcse", entry), {"again": (part(entry),)}
    )
    assert first.startswith("@inproceedings{gao2021simcse,")
    assert first.endswith("}")
    assert second == entry


def test_a_citation_that_is_nothing_is_reported():
    with pytest.raises(
        PluginError, match=r"`Part` cites 'gao2012', which is no key of"
    ):
        bibliography(part("gao2012"))


def test_every_entry_of_the_bibliography_is_whole():
    from importlib.resources import files

    text = (files("sentbed") / "citations.bib").read_text("utf-8")
    keys = re.findall(r"^@\w+\{(.+),$", text, re.MULTILINE)
    assert len(keys) > 20
    assert len(set(keys)) == len(keys)

    for entry in bibliography(part(*keys)):
        opened = entry.count("{")
        assert opened == entry.count("}"), entry
        for field in ("title", "author", "year"):
            line = rf"^  {field} = \{{.+\}},?$"
            assert re.search(line, entry, re.MULTILINE), entry


def test_what_our_parts_cite_is_known():
    plugins = load_plugins()
    cited: set[str] = set()
    for kind in KINDS:
        for name in plugins.names(kind):
            component = plugins.load(kind, name)
            if isinstance(component.cites, tuple):
                cited |= set(component.cites)
    assert bibliography(part(*sorted(cited)))
