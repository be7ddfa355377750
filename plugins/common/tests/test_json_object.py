from __future__ import annotations

import json
from random import Random

import pytest
from sentbed import DataError
from sentbed_common import json_object


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]\n", r"the line holds a JSON list; expected an object @ a\.jsonl:3$"),
        (
            "{\n",
            r"the line is not valid JSON \(.*\); expected one object a line @ a\.jsonl:3$",
        ),
        ("\n", r"the line is not valid JSON .*, and no blank line @ a\.jsonl:3$"),
        (
            '{"a": 1, "b": 2, "a": 3}\n',
            r"the key `a` occurs twice in an object; remove one, or rename it @ a\.jsonl:3$",
        ),
        (
            '{"a": [{"b": {"\\u0061": 1, "a": 1}}]}',
            r"the key `a` occurs twice in an object; .*:3$",
        ),
    ],
)
def test_a_line_without_an_object_is_told(line, message):
    with pytest.raises(DataError, match=message):
        json_object(line, "a.jsonl", 3)
    assert json_object('{"a": null}\n', "a.jsonl", 3) == {"a": None}


def test_a_key_that_is_repeated_anywhere_is_refused_and_nothing_else_is():
    random = Random(0)
    for _ in range(300):
        row, keys = nested_object(random)
        text = json.dumps(row)
        assert json_object(text, "a.jsonl", 1) == row
        key = random.choice(keys)
        repeated = text.replace(f'"{key}":', f'"{key}": null, "{key}":', 1)
        with pytest.raises(
            DataError, match=rf"^the key `{key}` occurs twice .* @ a\.jsonl:1$"
        ):
            json_object(repeated, "a.jsonl", 1)


def nested_object(random):
    """Return an object with objects and lists in it, and all its keys, each of which is there once."""
    keys = [f"k{number}" for number in range(random.randint(1, 12))]
    root = {}
    objects = [root]
    for key in keys:
        place = random.choice(objects)
        place[key] = "text"
        if random.random() < 0.5:
            inner = {}
            place[key] = [inner, 2]
            objects.append(inner)
    return root, keys
