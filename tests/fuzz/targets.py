"""What is fuzzed: each target makes whole files once, then damages a file a case and has it read.

A target is a function of a directory that returns a `Case`. A case that returns has been accepted; a
`SentbedError` has refused it; whatever else it raises is a finding, `ChangedError` among them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

from mutations import damage, damaged

ROOT = Path(__file__).resolve().parent.parent.parent

Case = Callable[[Random], None]

SENTENCES = [
    "A cat sits on the mat.",
    "Two dogs run.",
    "",
    "é ☃ 日本語",
    "a longer sentence with more words in it",
]


SMALL = """\
schema = 1
[run]
name = "small"
[runtime]
use = "cpu"
threads = 1
[encoder]
max_length = 16
backbone = { use = "bert", init = "random", vocab_size = 300, size = "tiny" }
pooler = { use = "cls-mlp" }
"""
"""An encoder of a few thousand weights."""

STAGE = """\
[[stage]]
name = "s"
data = { use = "sample" }
loss = { use = "info-nce" }
optimizer = { use = "adamw", lr = 1e-3 }
schedule = { use = "constant" }
batch_size = 8
"""
"""A stage that lacks its `steps`."""

STUDY = """\
[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-dev.tsv"
[study.axes.length]
path = "encoder.max_length"
values = [8, 16]
"""


class ChangedError(Exception):
    """What was read differs from what was written, and nothing was said."""


class FaultError(Exception):
    """An error that was caught further down, and is shown as a fault of the code."""


@contextmanager
def restored(file, random):
    """Damage a file for the length of a block."""
    before = damage(file, random)
    try:
        yield
    finally:
        file.write_bytes(before)


def _check(file, overrides=()):
    from sentbed import RecipeError
    from sentbed._cli.check import _check as check
    from sentbed._registry.registry import load_plugins

    try:
        check(str(file), overrides, load_plugins(), False)
    except RecipeError as error:
        if " raised " in str(error):
            raise FaultError(str(error)) from error
        raise


def recipes(place):
    """Recipes that are shipped, damaged and with damaged overrides, as `sentbed check` reads them."""
    shipped = sorted(ROOT.glob("recipes/**/*.toml"))
    texts = [
        text
        for text in (file.read_bytes() for file in shipped)
        if b"[study" not in text
    ]
    assert len(texts) > 5
    (place / "base.toml").write_bytes(texts[0])

    def case(random):
        file = place / "r.toml"
        text = random.choice(texts)
        if random.random() < 0.1:
            text = b'extends = ["base.toml"]\n' + text
        file.write_bytes(damaged(text, random))
        override = damaged(b"stage.0.batch_size=32", random).decode(errors="replace")
        _check(file, (override,) if random.random() < 0.2 else ())

    return case


def studies(place):
    """Recipes with `[study]`, and the files that a study leaves, read back for a report."""
    shipped = [file.read_bytes() for file in sorted(ROOT.glob("recipes/**/*.toml"))]
    texts = [text for text in shipped if b"[study" in text]
    assert len(texts) > 2
    left = place / "left"
    recipe = place / "small.toml"
    recipe.write_text(SMALL + STAGE + "steps = 1\n" + STUDY)
    command = [
        sys.executable,
        "-m",
        "sentbed",
        "study",
        str(recipe),
        "--out",
        str(left),
    ]
    subprocess.run(command, check=True, capture_output=True)
    files = [
        file
        for file in sorted(left.rglob("*"))
        if file.name in ("study.json", "report.json", "manifest.json", "keys.json")
        or file.suffix == ".npz"
    ]
    assert {file.suffix for file in files} == {".json", ".npz"}

    def case(random):
        from sentbed_report.study.read_study_directory import read_data

        if random.random() < 0.5:
            (place / "s.toml").write_bytes(damaged(random.choice(texts), random))
            _check(place / "s.toml")
        else:
            with restored(random.choice(files), random):
                read_data(left)

    return case


PAIRS = [
    ("one two", "three four", 1.5),
    ("é ☃", 'five, "six"', 0.0),
    ("seven", "eight", 4.5),
    ("nine", "ten", 3.0),
] * 5


def data_files(place):
    """Data files of every format, read by the data sources and evaluators that take them."""
    import csv

    import pyarrow as pa
    from pyarrow import parquet
    from sentbed._recipe.load import component_of
    from sentbed.protocols import DataSource, Evaluator
    from sentbed.tools import load_plugins

    plugins = load_plugins()
    names = ("anchor", "positive", "score")
    rows = [dict(zip(names, row, strict=True)) for row in PAIRS]
    with (place / "a.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *PAIRS])
    (place / "a.tsv").write_text(
        "\n".join("\t".join(map(str, row)) for row in [names, *PAIRS]).replace('"', "")
    )
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "a.txt").write_text("".join(f"{row[0]}\n" for row in PAIRS))
    (place / "b.txt").write_text("".join(f"{row[1]}\n" for row in PAIRS))
    table = pa.table({name: [row[name] for row in rows] for name in names})
    parquet.write_table(table, place / "a.parquet")
    with pa.ipc.new_file(str(place / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    (place / "beir" / "qrels").mkdir(parents=True)
    for name in ("corpus", "queries"):
        lines = (
            json.dumps({"_id": f"{i}", "title": "t", "text": row[0]})
            for i, row in enumerate(PAIRS)
        )
        (place / "beir" / f"{name}.jsonl").write_text("\n".join(lines))
    (place / "beir/qrels/test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n1\t2\t1\n3\t4\t2\n"
    )
    sts = {"use": "sts", "columns": list(names)}
    both = ["a.txt", "b.txt"]
    readers = [
        *(
            (DataSource, {"use": "pairs", "path": f"a.{end}"}, (f"a.{end}",))
            for end in ("csv", "tsv", "jsonl", "parquet", "arrow")
        ),
        *(
            (
                DataSource,
                {"use": "pairs", "path": f"a.{end}", "stream": True},
                (f"a.{end}",),
            )
            for end in ("csv", "arrow")
        ),
        *(
            (Evaluator, {**sts, "path": f"a.{end}"}, (f"a.{end}",))
            for end in ("csv", "tsv", "jsonl")
        ),
        (Evaluator, {"use": "bitext", "parallel": both}, ("a.txt", "b.txt")),
        (
            Evaluator,
            {"use": "geometry", "parallel": both, "pairs": 8, "positives": 4},
            ("a.txt", "b.txt"),
        ),
        (
            Evaluator,
            {"use": "retrieval", "path": "beir"},
            ("beir/corpus.jsonl", "beir/queries.jsonl", "beir/qrels/test.tsv"),
        ),
    ]

    def read(protocol, table):
        absolute = {
            key: _absolute(place, value) if key in ("path", "parallel") else value
            for key, value in table.items()
        }
        component = component_of(protocol, absolute, plugins)
        if protocol is Evaluator:
            component.prepare()
            return
        data = component.open()
        texts = [
            text for column in data.rows(range(len(data))).values() for text in column
        ]
        if not all(
            isinstance(text, str) and text.strip() for text in [*texts, *data.texts()]
        ):
            raise ChangedError("a text is empty, or none")

    for protocol, table_, _ in readers:
        read(protocol, table_)  # whole files are read

    def case(random):
        protocol, table, files = random.choice(readers)
        with restored(place / random.choice(files), random):
            read(protocol, table)

    return case


def _absolute(place, value):
    return (
        [str(place / part) for part in value]
        if isinstance(value, list)
        else str(place / value)
    )


def models(place):
    """Directories of models as transformers saves them, loaded as a backbone."""
    _encoder(place)
    model = place / "encoder" / "backbone"
    files = sorted(file for file in model.iterdir() if file.is_file())
    assert len(files) >= 3

    def case(random):
        from sentbed.protocols import BuildContext
        from sentbed_backbones.bert import Bert

        with restored(random.choice(files), random):
            backbone = Bert(
                model=str(model), init=random.choice(("pretrained", "random"))
            )
            built = backbone.build(BuildContext(tuple))
            built.tokenizer  # noqa: B018 - it is part of what was built

    return case


def encoders(place):
    """Saved encoders: what loads gives the vectors of what was saved."""
    import numpy as np
    from sentbed import Encoder

    _encoder(place)
    saved = place / "encoder"
    # One thread: how many there are changes the last bits.
    load = partial(Encoder.load, saved, {"use": "cpu", "threads": 1})
    before = load().encode(SENTENCES)
    assert np.array_equal(load().encode(SENTENCES), before)
    files = sorted(file for file in saved.rglob("*") if file.is_file())

    def case(random):
        file = random.choice(files)
        with restored(file, random):
            vectors = load().encode(SENTENCES)
        if not np.array_equal(vectors, before):
            raise ChangedError(
                f"`{file.relative_to(saved)}` was damaged, and the vectors differ"
            )

    return case


def _encoder(place):
    """Build a small encoder, and save it in `encoder`."""
    from sentbed import build_encoder, load_recipe

    recipe = place / "encoder.toml"
    recipe.write_text(SMALL + STAGE + "steps = 1\n")
    built = build_encoder(load_recipe(recipe))
    built.save(place / "encoder")
    return built


def caches(place):
    """The caches of vectors and of streamed texts: what is read is what was written."""
    import numpy as np
    from sentbed._recipe.load import component_of
    from sentbed.protocols import DataSource
    from sentbed.tools import load_plugins
    from sentbed_workbench.vector_cache import SEGMENT, VectorCache

    os.environ["SENTBED_CACHE"] = str(place / "cache")
    source = place / "a.csv"
    source.write_text(
        "anchor,positive\n"
        + "".join(f"text number {i},other {i * i}\n" for i in range(300))
    )
    opened = partial(
        component_of,
        DataSource,
        {"use": "pairs", "path": str(source), "stream": True},
        load_plugins(),
    )
    texts = [*opened().open().texts()]
    (cached,) = (place / "cache" / "texts").glob("*.arrow")
    space, root = "space", place / "vectors"
    expected = np.arange(4 * len(SENTENCES), dtype=np.float32).reshape(-1, 4)
    store = partial(VectorCache, root)
    store().encode(space, SENTENCES, lambda _: expected, 4)
    (segment,) = root.glob(f"*/*{SEGMENT}")
    whole = {cached: cached.read_bytes(), segment: segment.read_bytes()}

    def case(random):
        file = random.choice([cached, segment])
        file.write_bytes(damaged(whole[file], random))
        if file == segment:
            vectors = store().encode(space, SENTENCES, lambda _: expected, 4)
            if not np.array_equal(vectors, expected):
                raise ChangedError("the vectors differ from those that were kept")
        elif [*opened().open().texts()] != texts:
            raise ChangedError("the texts differ from those of the file")

    return case


def weights(place):
    """Saved encoders and models with a weight that is not finite: refused, wherever it is."""
    import torch
    from safetensors.torch import load, save
    from sentbed import Encoder
    from sentbed.protocols import BuildContext
    from sentbed_backbones.bert import Bert

    _encoder(place)
    saved = place / "encoder"
    files = sorted(saved.rglob("*.safetensors"))
    assert len(files) >= 2

    def case(random):
        file = random.choice(files)
        whole = file.read_bytes()
        tensors = load(whole)
        name = random.choice(sorted(tensors))
        values = tensors[name].clone()
        values.view(-1)[random.randrange(values.numel())] = random.choice(
            (float("nan"), float("inf"))
        )
        tensors[name] = values.to(
            random.choice((torch.float32, torch.float16, torch.bfloat16))
        )
        try:
            file.write_bytes(save(tensors, {"format": "pt"}))
            if "backbone" in file.parts and random.random() < 0.5:
                Bert(model=str(file.parent)).build(BuildContext(tuple))
            else:
                Encoder.load(saved, {"use": "cpu", "threads": 1}).encode(SENTENCES)
        finally:
            file.write_bytes(whole)
        raise ChangedError(
            f"`{name}` of `{file.relative_to(saved)}` has a value that is not finite"
        )

    Encoder.load(saved, {"use": "cpu", "threads": 1})  # without the value it is read
    return case


def tokenizers(place):
    """Tokenizers that are made to take time or memory: refused, or within the limits."""
    _encoder(place)
    model = place / "encoder" / "backbone"
    file = model / "tokenizer.json"
    whole = json.loads(file.read_text())

    def growing(random):
        """Return a normalizer that makes texts longer."""
        step = random.choice(
            (
                {
                    "type": "Prepend",
                    "prepend": "a" * random.choice((1, 1000, 10_000_000)),
                },
                {
                    "type": "Replace",
                    "pattern": {"String": "a"},
                    "content": "a" * random.choice((2, 10, 1000)),
                },
                {"type": "Replace", "pattern": {"Regex": "(a|a?)+$"}, "content": "b"},
            )
        )
        return {
            "type": "Sequence",
            "normalizers": [step] * random.choice((1, 3, 6, 9, 100)),
        }

    def added(random):
        """Return special tokens, more than a tokenizer has."""
        count, first = (
            random.choice((10, 1000, 100_000)),
            random.choice((0, 300, 1 << 31, 1 << 40)),
        )
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        return [
            {"id": first + i, "content": f"<x{i}>", "special": True, **flags}
            for i in range(count)
        ]

    def case(random):
        from sentbed.protocols import BuildContext
        from sentbed_backbones.bert import Bert

        changed = dict(whole)
        kind = random.choice(("normalizer", "added_tokens", "pre_tokenizer", "nested"))
        if kind == "normalizer":
            changed[kind] = growing(random)
        elif kind == "added_tokens":
            changed[kind] = [*whole[kind], *added(random)]
        elif kind == "pre_tokenizer":
            pattern = {"Regex": random.choice(("(a+)+$", "(a|aa)+$", "(.*)*x"))}
            changed[kind] = {
                "type": "Split",
                "pattern": pattern,
                "behavior": "Isolated",
                "invert": False,
            }
        else:
            depth = random.choice((10, 1000, 50_000))
            changed = {"normalizer": None}
            file.write_text("[" * depth + "]" * depth)
        if kind != "nested":
            file.write_text(json.dumps(changed))
        built = Bert(model=str(model)).build(BuildContext(tuple))
        built.tokenizer.encode(["a" * 300, *SENTENCES], 16)

    return case


def imports(place):
    """Folders of sentence-transformers, damaged."""
    import numpy as np
    from sentbed_interop.export_and_import import export_encoder, import_encoder

    _encoder(place)
    folder, imported = place / "folder", place / "imported"
    export_encoder(place / "encoder", folder, "sentence-transformers")
    files = sorted(file for file in folder.rglob("*") if file.is_file())

    def read():
        shutil.rmtree(imported, ignore_errors=True)
        return import_encoder(folder, imported, "sentence-transformers")

    def case(random):
        with restored(random.choice(files), random):
            converted = read()
        if not np.isfinite(converted.encode(SENTENCES)).all():
            raise ChangedError("vectors that are not finite were imported")

    read()  # the whole one is one
    return case


TARGETS: Mapping[str, Callable[[Path], Case]] = {
    target.__name__: target
    for target in (
        recipes,
        studies,
        data_files,
        models,
        encoders,
        caches,
        weights,
        tokenizers,
        imports,
    )
}
