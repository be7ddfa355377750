"""What a study takes before it can run: models and data."""

from __future__ import annotations

import re

from sentbed.errors import RecipeError, SentbedError
from sentbed.tools import Plugins, check
from sentbed_workbench.resource_plan import encoder_plan

from sentbed_studies.study import Study

_COMMAND = re.compile(r"`(sentbed data get [^`]+)`")


def needs_of(study: Study, plugins: Plugins) -> str:
    """Return a paragraph on the models and the data of a study's cells."""
    parts = [f"the models {', '.join(_models(study))}"]
    commands, problems = _missing_data(study, plugins)
    if commands:
        parts.append(f"data that is not here ({', '.join(commands)})")
    return " ".join([f"It takes {'; '.join(parts)}.", *problems])


def _models(study: Study) -> list[str]:
    """Return the distinct models of the cells, each with its number of parameters and its size in 32 bits."""
    models = {}
    for run in study.runs:
        for key, encoder in run.recipe.encoders.items():
            name = getattr(encoder.backbone, "model", None) or encoder.backbone.name
            if name in models:
                continue

            try:
                parameters = encoder_plan(run.recipe, key).backbone.parameters
            except SentbedError:
                models[name] = f"{name} (size unknown)"
                continue
            millions = parameters / 1e6
            gigabytes = parameters * 4 / 1e9
            models[name] = f"{name} ({millions:,.0f} M parameters, {gigabytes:,.1f} GB)"
    return list(models.values())


def _missing_data(study: Study, plugins: Plugins) -> tuple[list[str], list[str]]:
    """Return the commands that get files that are missing, and the problems that no command solves."""
    commands: dict[str, None] = {}
    problems: dict[str, None] = {}

    for run in study.runs:
        try:
            check(run.recipe, plugins)
        except RecipeError as error:
            for problem in error.problems:
                commands_named = _COMMAND.findall(problem.message)
                for command in commands_named:
                    commands[f"`{command}`"] = None

                if not commands_named:
                    problems[f"Not here: {problem.message}."] = None

    return list(commands), list(problems)
