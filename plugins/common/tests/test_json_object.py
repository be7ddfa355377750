from __future__ import annotations

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
    ],
)
def test_a_line_without_an_object_is_told(line, message):
    with pytest.raises(DataError, match=message):
        json_object(line, "a.jsonl", 3)
    assert json_object('{"a": null}\n', "a.jsonl", 3) == {"a": None}
