from __future__ import annotations

from sentbed_report.unique_names import unique_name


def test_names_that_are_taken_get_the_first_number_that_is_free():
    taken = {"theme"}
    names = ["theme", "a", "a-2", "a", "a"]
    assert [unique_name(name, taken) for name in names] == [
        "theme-2",
        "a",
        "a-2",
        "a-3",
        "a-4",
    ]
    assert taken == {"theme", "theme-2", "a", "a-2", "a-3", "a-4"}


def test_names_that_are_alike_when_reduced_differ_in_their_numbers():
    taken = set()
    assert [
        unique_name(name, taken, str.lower) for name in ("STS", "sts", "Sts-2")
    ] == [
        "STS",
        "sts-2",
        "Sts-2-2",
    ]
