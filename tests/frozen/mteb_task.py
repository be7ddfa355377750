"""A task of MTEB on the sample of sentbed-data, for the room `evaluation`: MTEB's own tasks need the hub."""

from __future__ import annotations

import datasets
import sentbed
from mteb import TaskMetadata
from mteb.abstasks import AbsTaskSTS


class SamplePairs(AbsTaskSTS):
    metadata = TaskMetadata(
        name="SamplePairs",
        description="Pairs of sentences with a score.",
        type="STS",
        main_score="cosine_spearman",
        dataset={"path": "local/SamplePairs", "revision": "1"},
        eval_langs=["eng-Latn"],
    )

    def load_data(self, **_):
        path = sentbed.locate("pkg:sentbed_data/sample/sts-test.tsv")
        pairs = datasets.Dataset.from_csv(str(path), sep="\t")
        self.dataset = datasets.DatasetDict(test=pairs)
        self.data_loaded = True
