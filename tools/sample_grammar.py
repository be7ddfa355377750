"""The grammar that generates the sample corpus: `python tools/sample_grammar.py DIRECTORY`.

A situation has five slots: who did what to which thing, where and when. Each slot has one of about a dozen
concepts, and each concept has two or three synonymous wordings. A sentence is made of a situation, a wording
for each slot, and a sentence pattern (active, passive, cleft; time or place in front).

- A positive has the same situation as its anchor, other wordings and another pattern.
- A hard negative has nearly the same words as its anchor, but one slot has another concept, or it is negated.
- The score of a graded pair is the number of slots with the same concept: 5 for a paraphrase, 0 for unrelated
  sentences.

A checksum assigns every situation to one file, so that no situation occurs in two files.
"""

from __future__ import annotations

import csv
import io
import random
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

Situation: TypeAlias = tuple[int, ...]
"""Index of a concept for each slot in `SLOTS`."""
Wording: TypeAlias = tuple[int, ...]
"""Index of a wording for each slot in `SLOTS`."""

PEOPLE = (
    ("doctor", "physician", "medic"),
    ("teacher", "schoolteacher", "tutor"),
    ("police officer", "constable", "cop"),
    ("boy", "lad", "little boy"),
    ("old woman", "elderly lady", "granny"),
    ("lawyer", "attorney", "solicitor"),
    ("sailor", "seaman", "mariner"),
    ("tourist", "sightseer", "holidaymaker"),
    ("scientist", "researcher"),
    ("reporter", "journalist", "correspondent"),
    ("shopkeeper", "merchant", "store owner"),
    ("taxi driver", "cabbie", "cab driver"),
)
ACTIONS = (
    (
        ("buy", "bought", "bought"),
        ("purchase", "purchased", "purchased"),
        ("pay for", "paid for", "paid for"),
    ),
    (
        ("steal", "stole", "stolen"),
        ("swipe", "swiped", "swiped"),
        ("pilfer", "pilfered", "pilfered"),
    ),
    (("find", "found", "found"), ("discover", "discovered", "discovered")),
    (
        ("hide", "hid", "hidden"),
        ("conceal", "concealed", "concealed"),
        ("stash", "stashed", "stashed"),
    ),
    (
        ("repair", "repaired", "repaired"),
        ("fix", "fixed", "fixed"),
        ("mend", "mended", "mended"),
    ),
    (("clean", "cleaned", "cleaned"), ("wipe down", "wiped down", "wiped down")),
    (
        ("damage", "damaged", "damaged"),
        ("wreck", "wrecked", "wrecked"),
        ("ruin", "ruined", "ruined"),
    ),
    (
        ("lose", "lost", "lost"),
        ("misplace", "misplaced", "misplaced"),
        ("mislay", "mislaid", "mislaid"),
    ),
    (
        ("inspect", "inspected", "inspected"),
        ("examine", "examined", "examined"),
        ("look over", "looked over", "looked over"),
    ),
    (
        ("discard", "discarded", "discarded"),
        ("throw away", "threw away", "thrown away"),
        ("dump", "dumped", "dumped"),
    ),
    (
        ("carry", "carried", "carried"),
        ("lug", "lugged", "lugged"),
        ("haul", "hauled", "hauled"),
    ),
    (("draw", "drew", "drawn"), ("sketch", "sketched", "sketched")),
)
"""Wordings of each action, with base form, past tense and participle."""
OBJECTS = (
    ("bicycle", "bike", "cycle"),
    ("watch", "wristwatch", "timepiece"),
    ("suitcase", "travelling case", "piece of luggage"),
    ("mobile phone", "cell phone", "smartphone"),
    ("laptop", "notebook computer", "portable computer"),
    ("rucksack", "backpack", "knapsack"),
    ("sweater", "jumper", "pullover"),
    ("torch", "flashlight"),
    ("violin", "fiddle"),
    ("teddy bear", "stuffed bear"),
    ("rug", "carpet", "mat"),
    ("shovel", "spade"),
)
PLACES = (
    ("at the railway station", "at the train station", "on the station platform"),
    ("in the harbour", "at the port", "at the docks"),
    ("at the market", "in the marketplace", "among the market stalls"),
    ("in the forest", "in the woods", "among the trees"),
    ("on the beach", "at the seaside", "on the seashore"),
    ("in the street", "on the road", "on the pavement"),
    ("at the hospital", "at the clinic", "in the infirmary"),
    ("at the hotel", "at the guesthouse", "at the inn"),
    ("in the cellar", "in the basement"),
    ("in the attic", "in the loft", "under the roof"),
    ("in the pub", "at the bar", "in the tavern"),
    ("in the factory", "at the plant", "in the workshop"),
)
TIMES = (
    ("at dawn", "at daybreak", "at sunrise"),
    ("at noon", "at midday", "at twelve o'clock"),
    ("at dusk", "at nightfall", "at sunset"),
    ("in the dead of night", "around midnight", "in the middle of the night"),
    ("during the storm", "while the storm raged", "during the gale"),
    ("in the rain", "while it was raining", "during the downpour"),
    ("in winter", "in wintertime", "during the cold season"),
    ("in summer", "in summertime", "during the hot season"),
    ("last week", "a week ago", "seven days ago"),
    ("long ago", "many years ago", "in the distant past"),
    ("at Christmas", "over the festive season"),
)
SLOTS: tuple[Sequence[Sequence[object]], ...] = (
    PEOPLE,
    ACTIONS,
    OBJECTS,
    PLACES,
    TIMES,
)

PATTERNS = (
    "{person} {past} {object} {place} {time}.",
    "{time}, {person} {past} {object} {place}.",
    "{place}, {person} {past} {object} {time}.",
    "{object} was {participle} by {person} {place} {time}.",
    "{time}, {object} was {participle} by {person} {place}.",
    "it was {person} who {past} {object} {place} {time}.",
)
NEGATED = (
    "{person} did not {base} {object} {place} {time}.",
    "{time}, {person} did not {base} {object} {place}.",
    "{place}, {person} did not {base} {object} {time}.",
    "{object} was not {participle} by {person} {place} {time}.",
    "{time}, {object} was not {participle} by {person} {place}.",
    "it was not {person} who {past} {object} {place} {time}.",
)
"""Negated patterns, in the same order as the affirmative patterns."""

SEED = 20240229
TRIPLETS = 600
PAIRS_A_SCORE = 42
"""Number of graded pairs with each score from 0 to 5, in each of the two files."""
OTHER_WORDING = 0.8
"""Probability that a paraphrase has another wording in a slot."""
NEGATION = 0.15
"""Share of hard negatives that are negations; in the others, one slot is changed."""
FILES = {"train": (0, 1), "dev": (2,), "test": (3,)}
"""Checksums (modulo 4) of the situations in each file."""


class Writer:
    """A generator of situations and sentences; only `random()` is used, which is the same in every Python."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._random = random.Random(SEED + FILES[file][0])
        self._used: set[Situation] = set()

    def below(self, count: int) -> int:
        """Return a random number from 0 to `count` - 1."""
        return int(self._random.random() * count)

    def other(self, than: int, count: int) -> int:
        """Return a random number from 0 to `count` - 1 other than `than`."""
        return (than + 1 + self.below(count - 1)) % count

    def shuffled(self, values: Sequence[int]) -> list[int]:
        """Return the values in random order."""
        keys = [self._random.random() for _ in values]
        return [value for _, value in sorted(zip(keys, values, strict=True))]

    def situation(self, base: Situation | None = None, changes: int = 0) -> Situation:
        """Return a new situation of this file: a random one, or `base` with `changes` slots changed."""
        while True:
            if base is None:
                drawn = [self.below(len(slot)) for slot in SLOTS]
            else:
                drawn = list(base)

            for i in self.shuffled(range(len(SLOTS)))[:changes]:
                drawn[i] = self.other(drawn[i], len(SLOTS[i]))

            situation = tuple(drawn)
            if (
                zlib.crc32(bytes(situation)) % 4 in FILES[self._file]
                and situation not in self._used
            ):
                self._used.add(situation)
                return situation

    def wording(self, situation: Situation) -> Wording:
        """Return a random wording of a situation."""
        wording = []
        for slot, concept in zip(SLOTS, situation, strict=True):
            wording.append(self.below(len(slot[concept])))
        return tuple(wording)

    def reworded(
        self,
        situation: Situation,
        base: Situation,
        wording: Wording,
    ) -> Wording:
        """Return a wording of a situation; `wording` is a wording of the situation `base`.

        In slots in which both situations have the same concept, the two wordings mostly differ.
        """
        result = list(self.wording(situation))
        for i, concept in enumerate(situation):
            if concept != base[i]:
                continue

            result[i] = wording[i]
            if self._random.random() < OTHER_WORDING:
                result[i] = self.other(wording[i], len(SLOTS[i][concept]))

        return tuple(result)

    def say(
        self,
        situation: Situation,
        wording: Wording,
        pattern: str,
    ) -> str:
        """Return the sentence that a pattern makes of a wording."""
        person, action, thing, place, time = situation
        base, past, participle = ACTIONS[action][wording[1]]
        sentence = pattern.format(
            person=self._noun(PEOPLE[person][wording[0]]),
            base=base,
            past=past,
            participle=participle,
            object=self._noun(OBJECTS[thing][wording[2]]),
            place=PLACES[place][wording[3]],
            time=TIMES[time][wording[4]],
        )
        return sentence[0].upper() + sentence[1:]

    def _noun(self, noun: str) -> str:
        """Return a noun with a random article."""
        indefinite = "a"
        if noun[0] in "aeiou":
            indefinite = "an"
        article = ("the", indefinite)[self.below(2)]
        return f"{article} {noun}"


def triplets() -> list[tuple[str, str, str]]:
    """Return the triplets of the corpus: anchor, positive and hard negative."""
    writer = Writer("train")
    rows = []
    for _ in range(TRIPLETS):
        situation = writer.situation()
        wording, pattern = writer.wording(situation), writer.below(len(PATTERNS))
        anchor = writer.say(situation, wording, PATTERNS[pattern])
        positive_wording = writer.reworded(situation, situation, wording)
        positive_pattern = PATTERNS[writer.other(pattern, len(PATTERNS))]
        positive = writer.say(situation, positive_wording, positive_pattern)

        if writer.below(100) < NEGATION * 100:
            negative = writer.say(situation, wording, NEGATED[pattern])
        else:
            changed = writer.situation(situation, 1)
            words = list(writer.wording(changed))
            for slot, concept in enumerate(changed):
                if concept == situation[slot]:
                    words[slot] = wording[slot]

            negative = writer.say(
                changed, tuple(words), PATTERNS[writer.below(len(PATTERNS))]
            )

        rows.append((anchor, positive, negative))

    return rows


def graded_pairs(file: str) -> list[tuple[str, str, str]]:
    """Return score, first and second sentence of each pair in the file `dev` or `test`."""
    writer = Writer(file)
    scores: list[int] = []
    for score in range(len(SLOTS) + 1):
        scores += [score] * PAIRS_A_SCORE

    rows = []
    for score in writer.shuffled(scores):
        first = writer.situation()
        second = first
        if score < len(SLOTS):
            second = writer.situation(first, len(SLOTS) - score)

        wording, pattern = writer.wording(first), writer.below(len(PATTERNS))
        first_sentence = writer.say(first, wording, PATTERNS[pattern])
        second_wording = writer.reworded(second, first, wording)
        second_pattern = PATTERNS[writer.other(pattern, len(PATTERNS))]
        second_sentence = writer.say(second, second_wording, second_pattern)
        rows.append((f"{score}.0", first_sentence, second_sentence))

    return rows


def write(directory: Path) -> None:
    """Write `triplets.csv`, `sts-dev.tsv` and `sts-test.tsv` into `directory`."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("sent0", "sent1", "hard_neg"))
    table.writerows(triplets())
    (directory / "triplets.csv").write_bytes(text.getvalue().encode())
    for file in ("dev", "test"):
        rows = [("score", "sentence1", "sentence2"), *graded_pairs(file)]
        lines = "\n".join(map("\t".join, rows)) + "\n"
        (directory / f"sts-{file}.tsv").write_bytes(lines.encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
