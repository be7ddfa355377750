from __future__ import annotations

import attrs
import pytest
import sentbed_evaluators


def test_the_plugin_offers_its_evaluators_by_name() -> None:
    assert [cls.name for cls in sentbed_evaluators.evaluators()] == [
        "senteval-sts",
        "senteval-transfer",
        "senteval-probing",
        "sentglue",
        "sentbench",
        "sts",
        "geometry",
        "retrieval",
        "bitext",
        "mteb",
        "throughput",
    ]


@pytest.mark.parametrize("cls", sentbed_evaluators.evaluators())
def test_a_component_is_frozen_and_its_fields_are_typed(cls: type) -> None:
    fields = attrs.fields(attrs.resolve_types(cls))
    assert fields
    required = {"path": "x.tsv", "parallel": ("x.en", "x.zh")}
    component = cls(
        **{field.name: required[field.name] for field in fields if field.default is attrs.NOTHING}
    )
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(component, fields[0].name, "other")


def test_those_that_take_a_second_encoder_say_so() -> None:
    two_sided = [cls.name for cls in sentbed_evaluators.evaluators() if getattr(cls, "two_sided", False)]
    assert two_sided == ["sts", "geometry", "retrieval", "bitext"]
