"""Data sources for sentbed: pairs, triplets, labelled rows, prose, altered sentences, a sample corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def data_sources() -> Mapping[str, Lazy]:
    """Return the data sources of this distribution."""
    return {
        "pairs": Lazy(
            "sentbed_data.pairs:Pairs",
            "Rows of two texts that belong together; the other rows of a batch serve as negatives.",
        ),
        "triplets": Lazy(
            "sentbed_data.triplets:Triplets",
            "Rows of a premise, its entailment and its contradiction (the hard negative).",
        ),
        "dropout": Lazy(
            "sentbed_data.dropout:Dropout",
            "A sentence, encoded twice: two dropout masks make the pair (Gao et al., 2021, section 3).",
        ),
        "crop": Lazy(
            "sentbed_data.crop:Crop",
            "A sentence, and a part of it (consecutive words) as the positive.",
        ),
        "delete": Lazy(
            "sentbed_data.delete:Delete",
            "A sentence, and the same sentence without some of its words as the positive.",
        ),
        "synonyms": Lazy(
            "sentbed_data.synonyms:Synonyms",
            "A sentence, and a copy with some words replaced by synonyms from WordNet: SentBench's DA.",
        ),
        "nsp": Lazy(
            "sentbed_data.nsp:Nsp",
            "A sentence and the next sentence of its document: SentBench's NSP (Devlin et al., 2019).",
        ),
        "parallel": Lazy(
            "sentbed_data.parallel:Parallel",
            "A sentence and its translation, from two line-aligned files or from two fields of a TSV file.",
        ),
        "clean-pairs": Lazy(
            "sentbed_data.clean_pairs:CleanPairs",
            "Pairs of another source, without duplicates, equal texts, and texts of the wrong length or script.",
        ),
        "nli": Lazy(
            "sentbed_data.nli:Nli",
            "Rows of labelled NLI files: SNLI, MultiNLI, OCNLI, XNLI and similar.",
        ),
        "qa": Lazy(
            "sentbed_data.qa:Qa",
            "Questions and answers: all rows or, in a file with labels, the rows with a right answer.",
        ),
        "scored": Lazy(
            "sentbed_data.scored:Scored",
            "Rows of two texts and a score, such as their similarity; optionally with hard negatives.",
        ),
        "for-teacher": Lazy(
            "sentbed_data.for_teacher:ForTeacher",
            "The rows of another source, with a copy of each text in a column that a teacher encodes.",
        ),
        "mix": Lazy(
            "sentbed_data.mix:Mix",
            "Several sources in one stage, each with a share of the rows, and with their common columns only.",
        ),
        "sample": Lazy(
            "sentbed_data.bundled_sample:Sample",
            "Some hundred synthetic triplets about everyday situations: enough to see that training works.",
        ),
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the known collections of data files that the sources of this distribution read."""

    from sentbed_data.known_collections import KNOWN

    return KNOWN


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the command `data`."""
    return {
        "data": Lazy(
            "sentbed_data.data_command:data",
            "Find, check and download the data sets that the plugins know.",
        )
    }
