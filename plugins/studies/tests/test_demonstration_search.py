from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import ModelError, RecipeError, RunError, load_recipe, locate, run
from sentbed._cli import main as cli
from sentbed._recipe.checks import check
from sentbed._recipe.prompts import TEMPLATES, Demonstration
from sentbed.protocols import DrivesEncoder
from sentbed_studies.demonstration_journal import JOURNAL
from sentbed_studies.demonstration_search import search
from sentbed_studies.demonstration_search_config import Search
from sentbed_workbench.vector_cache import VectorCache
from toy_plugin import SEARCH, Gap, Nearness

pytestmark = pytest.mark.slow

WORDS = ("Sleep", "Music", "Rain", "Bread", "Ice")
SENTENCES = (
    "A cat naps.",
    "She hums a tune in the bath.",
    "Wet.",
    "The oven is hot, the loaves rise.",
    "Icy.",
)
TABLE = "sentence\tword\n" + "".join(
    f"{s}\t{w}\n" for s, w in zip(SENTENCES, WORDS, strict=True)
)
FILES = {JOURNAL, "resolved.toml", "search.html", "search.json", "search.md"}


@pytest.fixture
def run_search(put, recipe_of, plugins, tmp_path):
    """Search the five candidates, with `PATH=VALUE` overrides."""
    put("d.tsv", TABLE)

    def go(*overrides, out="out"):
        return search(recipe_of(SEARCH, *overrides), tmp_path / out, plugins)

    return go


@pytest.fixture
def change(monkeypatch):
    """Let a function of the demonstration's word and an evaluation return what is evaluated instead."""
    original = Gap.prepare

    def patch(changed):
        def prepare(gap):
            return DrivesEncoder(
                lambda encoder: changed(
                    word_of(encoder), original(gap).evaluate(encoder)
                )
            )

        monkeypatch.setattr(Gap, "prepare", prepare)

    return patch


@pytest.fixture
def evaluated_words(change):
    """The word of the demonstration at each evaluation, in order; "" without one."""
    words = []

    def note(word, evaluation):
        words.append(word)
        return evaluation

    change(note)
    return words


def word_of(encoder):
    demonstration = encoder.encoder.recipe.prompt.demonstration
    return demonstration.word if demonstration else ""


def length(sentence="", word=""):
    """Tokens of the toy's prompt of a text with three characters: one a character and one before all."""
    before, behind = TEMPLATES["prompt-eol"].split("{text}")
    shown = f'{before}{sentence}{behind}{word}".' if sentence else ""
    return len(f"{shown}{before}abc{behind}") + 1


def journal(directory):
    return [json.loads(line) for line in (directory / JOURNAL).read_text().splitlines()]


# --- what it finds -----------------------------------------------------------------------------------------


def test_candidates_are_ranked_by_their_score_and_compared_with_no_demonstration(
    run_search,
):
    result = run_search()
    lengths = {
        word: length(text, word) for text, word in zip(SENTENCES, WORDS, strict=True)
    }
    ranked = [candidate.word for candidate in result.ranking.candidates]
    assert (
        ranked
        == ["Bread", "Music", "Sleep", "Rain", "Ice"]
        == sorted(lengths, key=lambda w: -lengths[w])
    )
    base = result.ranking.baseline.score
    for rank, candidate, difference in result.ranking.rows[:-1]:
        # A toy vector is a mean over tokens: two texts come nearer to each other as prompts grow.
        assert candidate.score == pytest.approx(
            base * length() / lengths[candidate.word], rel=1e-5
        )
        assert (rank, difference) == (
            ranked.index(candidate.word) + 1,
            candidate.score - base,
        )
    assert result.ranking.rows[-1] == (None, result.ranking.baseline, 0.0)


def test_the_winner_stands_in_a_recipe_that_runs(run_search, plugins, tmp_path):
    result = run_search()
    recipe = load_recipe(result.directory / "resolved.toml", plugins=plugins)
    prompt = recipe.encoders["encoder"].prompt
    assert recipe.table(Search) is None
    assert prompt is not None
    assert prompt == result.winner
    assert prompt.demonstration == Demonstration(SENTENCES[3], "Bread")
    first = run(recipe, tmp_path / "run", plugins).scores[0]
    assert first.encoder == "encoder@start"
    assert first.value == pytest.approx(result.ranking.candidates[0].score)
    assert (
        first.protocol["encoder"]["prompt"]["template"]
        == result.ranking.candidates[0].template
    )


def test_each_of_several_prompts_gets_the_demonstration(
    recipe_of, put, plugins, tmp_path
):
    put("d.tsv", TABLE)
    several = 'prompt = [{ template = "prompt-eol" }, { template = "pretended-cot" }]'
    recipe = recipe_of(SEARCH.replace('prompt.template = "prompt-eol"', several))
    result = search(recipe, tmp_path / "out", plugins)
    assert isinstance(result.winner, tuple)
    assert [prompt.template for prompt in result.winner] == [
        "prompt-eol",
        "pretended-cot",
    ]
    assert [prompt.demonstration for prompt in result.winner] == [
        Demonstration(SENTENCES[3], "Bread")
    ] * 2
    resolved = load_recipe(result.directory / "resolved.toml", plugins=plugins)
    assert resolved.encoders["encoder"].prompt == result.winner
    assert len({candidate.score for candidate in result.ranking.candidates}) == len(
        SENTENCES
    )


def test_whole_templates_are_no_candidates_of_several_prompts(recipe_of, put):
    put("d.tsv", TABLE)
    put("t.txt", 'This_sentence_:_"*sent_0*"_means\n')
    several = 'prompt = [{ template = "prompt-eol" }, { template = "pretended-cot" }]'
    text = SEARCH.replace('prompt.template = "prompt-eol"', several).replace(
        "d.tsv", "t.txt"
    )
    problems_of(
        recipe_of,
        text,
        "search.candidates",
        "whole templates, and the encoder has 2 prompts",
    )


def test_the_directory_holds_the_ranking_in_every_form(run_search):
    result = run_search()
    assert {path.name for path in result.directory.iterdir()} == FILES
    document = json.loads((result.directory / "search.json").read_text())
    rows = document["ranking"]["rows"]
    assert [row["word"] for row in rows] == [
        "Bread",
        "Music",
        "Sleep",
        "Rain",
        "Ice",
        "",
    ]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5, None]
    assert document["scores"][0]["protocol"]["evaluator"]["id"] == "gap"
    markdown = (result.directory / "search.md").read_text()
    assert "| The oven is hot, the loaves rise. | Bread | 1 |" in markdown
    page = (result.directory / "search.html").read_text()
    assert page.count("<svg") == 1
    assert "Scores of the candidates" in page
    assert re.search(
        rf'<th scope="row"[^>]*>{SENTENCES[3]}</th><td class="t">Bread</td>', page
    )


def test_the_journal_holds_every_score_with_its_protocol(run_search):
    header, *lines = journal(run_search().directory)
    assert set(header) == {"schema", "started", "decides"}
    assert [line["index"] for line in lines] == [0, 1, 2, 3, 4, 5]
    assert all(
        set(line) == {"index", "prompt", "score", "scores", "seconds"} for line in lines
    )
    assert lines[3]["prompt"].startswith(
        'This sentence : "Wet." means in one word:"Rain".This'
    )
    assert (
        lines[3]["scores"][0]["protocol"]["encoder"]["prompt"]["template"]
        == lines[3]["prompt"]
    )
    assert lines[3]["scores"][0]["value"] == lines[3]["score"]


def test_text_from_the_file_is_escaped(run_search, put):
    put("d.tsv", "sentence\tword\n<script>alert(1)</script> | `*_$x$\t<b>Bold</b>\n")
    result = run_search()
    page = (result.directory / "search.html").read_text()
    assert page.count("<script>") == 2
    assert "&lt;script&gt;alert(1)" in page
    assert "<b>Bold" not in page + (result.directory / "search.md").read_text()


def test_candidates_of_several_demonstrations_are_ranked_and_the_best_is_a_recipe(
    run_search, put, plugins
):
    pairs = zip(SENTENCES, WORDS, strict=True)
    row = [field for pair in pairs for field in pair]
    put(
        "two.tsv",
        "\t".join(["sentence", "word"] * 2)
        + "\n"
        + "\t".join(row[:4])
        + "\n"
        + "\t".join(row[4:8]),
    )
    result = run_search("search.candidates=two.tsv")
    assert len(result.winner.demonstrations) == 2
    words = {candidate.word for candidate in result.ranking.candidates}
    assert words == {"Sleep / Music", "Rain / Bread"}
    chosen = load_recipe(result.directory / "resolved.toml", plugins=plugins)
    assert (
        chosen.encoders[chosen.main_encoder].prompt.demonstrations
        == result.winner.demonstrations
    )


def test_a_demonstration_in_the_recipe_is_replaced(run_search, evaluated_words):
    run_search('encoder.prompt.demonstration={ text = "x", word = "y" }')
    assert evaluated_words == ["", *WORDS]


def test_the_limit_takes_the_first_candidates(run_search, evaluated_words):
    assert run_search("search.limit=2").ranking.candidates[0].word == "Music"
    assert evaluated_words == ["", "Sleep", "Music"]


def test_templates_in_the_shell_form_are_candidates_and_one_that_is_there_twice_is_scored_once(
    run_search, evaluated_words, put
):
    line = 'This_sentence_:_"{}"_means_in_one_word:"{}".This_sentence_:_"*sent_0*"_means_in_one_word:"\n'
    put(
        "d.txt",
        line.format("Wet.", "Rain")
        + line.format("A_long_way_home.", "Trip")
        + line.format("Wet.", "Rain"),
    )
    assert [
        c.word for c in run_search("search.candidates=d.txt").ranking.candidates
    ] == [
        "Trip",
        "Rain",
    ]
    assert evaluated_words == ["", "Rain", "Trip"]


def test_of_equal_scores_the_first_in_the_file_wins(run_search, put):
    # Two equal texts are at no distance under any prompt.
    put("d.tsv", "sentence\tword\nShort.\tOne\nNot as short.\tTwo\n")
    result = run_search("search.with.left=nop")
    assert [(c.word, c.score) for c in result.ranking.candidates] == [
        ("One", 0),
        ("Two", 0),
    ]


def test_a_search_without_improvement_says_so(run_search):
    # A longer prompt brings two texts nearer to each other, and so farther from a distant target.
    result = run_search("search.with.target=100")
    assert result.ranking.rows[0][0] is None
    assert (
        "No demonstration is better than none"
        in (result.directory / "search.md").read_text()
    )


def test_the_encoder_named_is_the_one_whose_prompt_is_searched(
    run_search, put, recipe_of, plugins, tmp_path
):
    two = (
        SEARCH.replace("[encoder]", "[encoders.a]")
        .replace("epochs", 'train = "a"\nepochs')
        .replace("development = true }", 'development = true }\nencoder = "b"')
        .replace(
            'at = ["start", "end"]',
            'encoder = "a"\n\n[encoders.b]\nmax_length = 16\n'
            'backbone = { use = "characters", width = 8, positions = 300 }\npooler = { use = "average" }\n'
            'prompt.template = "prompt-eol"',
        )
    )
    result = search(recipe_of(two), tmp_path / "two", plugins)
    resolved = load_recipe(result.directory / "resolved.toml", plugins=plugins)
    prompts = {name: encoder.prompt for name, encoder in resolved.encoders.items()}
    assert prompts["b"] == result.winner
    assert prompts["a"] is not None
    assert prompts["a"].demonstration is None
    problems_of(
        recipe_of,
        two.replace('encoder = "b"', 'encoder = "c"'),
        "search.encoder",
        "there is no encoder `c`",
    )
    problems_of(
        recipe_of,
        two.replace('\nencoder = "b"', ""),
        "search.encoder",
        "several encoders",
    )


def test_the_demonstrations_that_come_with_sentbed_are_the_default(recipe_of):
    table = recipe_of(SEARCH.replace('candidates = "d.tsv"\n', "")).table(Search)
    assert table is not None
    assert locate(table.candidates).name == "demonstrations.tsv"


# --- numbers that are none ---------------------------------------------------------------------------------


def spoil(change, *words):
    """Let these words' score be no number."""

    def without_score(word, evaluation):
        if word not in words:
            return evaluation
        scores = tuple(
            attrs.evolve(score, value=math.nan) for score in evaluation.scores
        )
        return attrs.evolve(evaluation, primary=math.nan, scores=scores)

    change(without_score)


def test_a_score_that_is_no_number_ranks_last(run_search, change):
    spoil(change, "Bread", "Sleep")
    first, again = run_search(), run_search()
    for result in (first, again):
        assert [c.word for c in result.ranking.candidates] == [
            "Music",
            "Rain",
            "Ice",
            "Sleep",
            "Bread",
        ]
    assert again.taken_over == 6
    page = (again.directory / "search.html").read_text()
    assert "2 scores not finite, not drawn." in page
    assert (
        json.loads((again.directory / "search.json").read_text())["ranking"]["rows"][
            -1
        ]["score"]
        is None
    )


def test_without_any_number_there_is_no_winner(run_search, change):
    spoil(change, "", *WORDS)
    with pytest.raises(RunError, match="no candidate has a score"):
        run_search()


# --- stopping and going on ---------------------------------------------------------------------------------


def test_an_interrupted_search_goes_on_where_it_was(run_search, change):
    words = []
    interrupting = ["Rain"]

    def note_or_interrupt(word, evaluation):
        if word in interrupting:
            interrupting.clear()
            raise KeyboardInterrupt
        words.append(word)
        return evaluation

    change(note_or_interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_search()
    assert (
        "stopped at 3 of 5: Wet. -> Rain\nthe same command goes on from there"
        in caught.value.__notes__[0]
    )
    assert words == ["", "Sleep", "Music"]
    resumed = run_search()
    assert (resumed.taken_over, words[3:]) == (3, ["Rain", "Bread", "Ice"])
    assert run_search(out="whole").ranking == resumed.ranking


def test_candidates_are_known_by_their_text_not_by_their_place(
    run_search, evaluated_words, put
):
    run_search("search.limit=3")
    evaluated_words.clear()
    header, *rows = TABLE.splitlines(keepends=True)
    put("d.tsv", header + "".join(reversed(rows)))
    result = run_search()
    assert (result.taken_over, evaluated_words) == (4, ["Ice", "Bread"])
    assert [c.word for c in result.ranking.candidates] == [
        "Bread",
        "Music",
        "Sleep",
        "Rain",
        "Ice",
    ]


@pytest.mark.parametrize("cut", [1, 30])
def test_a_torn_last_line_is_scored_again(run_search, evaluated_words, cut):
    whole = run_search()
    path = whole.directory / JOURNAL
    path.write_bytes(path.read_bytes()[:-cut])
    evaluated_words.clear()
    again = run_search()
    assert (again.taken_over, evaluated_words, again.ranking) == (
        5,
        ["Ice"],
        whole.ranking,
    )
    assert len(journal(whole.directory)) == 7


def test_a_torn_header_begins_anew(run_search, evaluated_words, put):
    put(f"out/{JOURNAL}", '{"schema": 1, "sta')
    assert run_search().taken_over == 0
    assert evaluated_words == ["", *WORDS]


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("run.seed=8", "recipe"),
        ("search.with.target=1", "recipe"),
        ("encoder.backbone.init_seed=1", "recipe and another weights"),
        ("version", "versions"),
    ],
)
def test_a_journal_of_another_search_is_refused(
    run_search,
    evaluated_words,
    override,
    what,
    monkeypatch,
):
    path = run_search().directory / JOURNAL
    before = path.read_bytes()
    evaluated_words.clear()
    overrides = [override]
    if override == "version":
        monkeypatch.setattr("sentbed_studies.demonstration_search.__version__", "9")
        overrides = []
    with pytest.raises(
        RunError, match=f"a search with another {what}, .* choose another `--out`"
    ):
        run_search(*overrides)
    assert evaluated_words == []
    assert path.read_bytes() == before


def test_what_does_not_decide_the_scores_may_change(run_search, evaluated_words):
    run_search("search.limit=2")
    evaluated_words.clear()
    assert (
        run_search("run.name=other", "evaluate.0.target=3", "search.limit=3").taken_over
        == 3
    )
    assert evaluated_words == ["Rain"]


def test_data_that_changed_between_two_starts_is_refused(run_search, change):
    run_search("search.limit=1")

    def of_other_data(_, evaluation):
        (score,) = evaluation.scores
        other = attrs.evolve(score, protocol={**score.protocol, "data": "new"})
        return attrs.evolve(evaluation, scores=(other,))

    change(of_other_data)
    with pytest.raises(RunError, match="data is no longer that of the scores"):
        run_search()


LINE = '{"prompt": "a", "score": 1, "scores": [], "seconds": 1}'


@pytest.mark.parametrize(
    "content",
    [
        *("what\n", "{}\n", '{"schema": 1}\n[]\n', "\xff\n".encode("latin-1")),
        # Without a whole line: somebody's file, which stays as it is.
        *("a thesis", b"\x00" * 9),
        # Deeper than Python's JSON goes, and lines whose numbers or scores are none.
        '{"schema": ' + "[" * 100_000 + "\n",
        *(LINE.replace("1,", f"{wrong},", 1) + "\n" for wrong in ('"x"', "[]", "true")),
        LINE.replace(": 1}", ': "1"}') + "\n",
        LINE.replace("[]", "[3]") + "\n",
        LINE.replace("[]", "{}") + "\nnot whole",
    ],
)
def test_a_file_that_is_no_journal_is_left_alone(run_search, put, content):
    if isinstance(content, str) and '"prompt"' in content:
        header, *_ = (
            (run_search("search.limit=1").directory / JOURNAL).read_text().splitlines()
        )
        content = f"{header}\n{content}"
    path = put(f"out/{JOURNAL}", content)
    before = path.read_bytes()
    with pytest.raises(RunError, match="cannot be read as the journal of a search"):
        run_search()
    assert path.read_bytes() == before


def test_a_directory_that_holds_something_else_is_refused(run_search, put):
    put("out/thesis.tex", "x")
    with pytest.raises(
        RunError, match=r"already holds `thesis.tex`; choose another `--out`"
    ):
        run_search()


def test_a_full_disk_is_a_run_error(run_search, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*No space left on device"):
        run_search()


# --- what is refused ---------------------------------------------------------------------------------------


def problems_of(recipe_of, text, path, message):
    with pytest.raises(RecipeError) as caught:
        recipe_of(text)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message
    assert problem.line


EOL = 'prompt.template = "prompt-eol"'
FILE = 'candidates = "d.tsv"'


@pytest.mark.parametrize(
    ("written", "instead", "path", "message"),
    [
        (
            ", development = true",
            "",
            "search.with",
            "it must not see test data, and `gap` does not say",
        ),
        (
            ", development = true",
            ", development = false",
            "search.with",
            '`tasks = ["STSB-dev"]`',
        ),
        ("d.tsv", "gone.tsv", "search.candidates", "does not exist"),
        (
            EOL,
            'prompt.template = "prompt"',
            "search.candidates",
            "cannot take a demonstration",
        ),
        (EOL, "", "search.candidates", "the encoder has none"),
        (
            EOL,
            'prompt.template = "prompt-oel"',
            "encoder.prompt",
            "there is no template `prompt-oel`",
        ),
        (
            FILE,
            'encoder = "other"',
            "search.encoder",
            "there is no encoder `other`, the recipe has `encoder`",
        ),
        (FILE, "limit = 0", "search.limit", "found 0"),
    ],
)
def test_a_search_that_cannot_work_is_a_problem_of_the_recipe(
    recipe_of, put, written, instead, path, message
):
    put("d.tsv", TABLE)
    problems_of(recipe_of, SEARCH.replace(written, instead), path, message)


def test_an_evaluator_that_does_not_speak_of_development_is_refused(
    recipe_of, put, plugins
):
    put("d.tsv", TABLE)

    recipe = recipe_of(SEARCH)
    table = recipe.table(Search)
    assert table is not None
    silent = attrs.evolve(table, evaluator=Nearness())
    with pytest.raises(
        RecipeError,
        match="`nearness` does not say that it scores development data only",
    ):
        check(attrs.evolve(recipe, tables={"search": silent}), plugins)


def test_a_line_that_is_no_candidate_is_a_problem_of_the_candidates(recipe_of, put):
    put("d.tsv", "sentence\tword\nonly a sentence\n")
    message = "expected a sentence, a tab and a word @ "
    problems_of(recipe_of, SEARCH, "search.candidates", message)


def test_a_recipe_without_a_search_is_refused(recipe_of, plugins, tmp_path):
    with pytest.raises(RecipeError, match=r"the recipe has no `\[search\]`; add one"):
        search(recipe_of(), tmp_path / "out", plugins)
    assert not (tmp_path / "out").exists()


def test_run_refuses_a_recipe_with_a_search(recipe_of, put, plugins, tmp_path):
    put("d.tsv", TABLE)
    with pytest.raises(
        RecipeError, match=r"use `sentbed search` first, then run the `resolved.toml`"
    ) as caught:
        run(recipe_of(SEARCH), tmp_path / "out", plugins)
    assert caught.value.problems[0].path == "search"
    assert not (tmp_path / "out").exists()


def test_a_prompt_longer_than_the_positions_names_the_candidate(run_search, tmp_path):
    longest = length(SENTENCES[3], "Bread")
    with pytest.raises(ModelError, match=f"a prompt has {longest} tokens") as caught:
        run_search(f"encoder.backbone.positions={longest - 1}")
    assert "-> Bread" in caught.value.__notes__[0]
    assert len(journal(tmp_path / "out")) == 1 + 4


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def recipe(put):
    put("d.tsv", TABLE)
    return put("r.toml", SEARCH)


COUNT = """
import os, signal, sys, toy_plugin
# A shell starts its background jobs with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from sentbed._cli.main import main
from sentbed.protocols import DrivesEncoder
original, seen = toy_plugin.Gap.prepare, 0
def evaluate(self, encoder):
    global seen
    seen += 1
    if seen == {at}:
        os.kill(os.getpid(), signal.{signal})
    print("evaluated", file=sys.stderr)
    return original(self).evaluate(encoder)
toy_plugin.Gap.prepare = lambda self: DrivesEncoder(lambda encoder: evaluate(self, encoder))
main()
"""


def command(site, recipe, at=0, name="SIGKILL"):
    """Search in a process of its own, which gets a signal at the evaluation number `at`, from 1."""
    code = COUNT.format(at=at, signal=name)
    path = [str(site), str(Path(toy_plugin.__file__).parent)]
    return subprocess.run(
        [sys.executable, "-c", code, "search", str(recipe)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        cwd=recipe.parent,
    )


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_where_it_was(installed_toy, recipe):
    killed = command(installed_toy, recipe, at=4)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stderr.count("evaluated") == 3
    directory = recipe.parent / "runs" / "toy-run-search"
    assert {path.name for path in directory.iterdir()} == {JOURNAL}
    assert len(journal(directory)) == 1 + 3

    resumed = command(installed_toy, recipe)
    assert resumed.returncode == 0
    assert f"taken over from runs/toy-run-search/{JOURNAL}: 3 of 6\n" in resumed.stderr
    assert resumed.stderr.count("evaluated") == 3
    assert resumed.stdout == "runs/toy-run-search/search.html\n"
    assert {path.name for path in directory.iterdir()} == FILES

    again = command(installed_toy, recipe)
    assert (again.returncode, again.stderr.count("evaluated")) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_search_that_is_told_to_stop_says_how_to_go_on(installed_toy, recipe, name):
    stopped = command(installed_toy, recipe, at=3, name=name)
    assert stopped.returncode == 130
    assert "Traceback" not in stopped.stderr
    assert stopped.stderr.splitlines()[-3:] == [
        "interrupted",
        "stopped at 2 of 5: She hums a tune in the bath. -> Music",
        f"the same command goes on from there, with runs/toy-run-search/{JOURNAL}",
    ]
    resumed = command(installed_toy, recipe)
    assert "taken over from" in resumed.stderr
    assert resumed.returncode == 0


def test_search_says_where_it_is_and_prints_the_path_of_the_report_last(
    installed_toy, recipe
):
    out = recipe.parent / "out"
    before = signal.getsignal(signal.SIGTERM)
    result = CliRunner().invoke(
        cli.main, ["search", str(recipe), "--out", str(out), "--set", "search.limit=2"]
    )
    assert signal.getsignal(signal.SIGTERM) is before
    assert (result.exit_code, result.stdout) == (0, f"{out / 'search.html'}\n")
    *lines, verdict = result.stderr.splitlines()
    assert "demonstration" in verdict
    assert [line.rpartition("  ")[0] for line in lines] == [
        "0 of 2: no demonstration",
        "1 of 2: A cat naps. -> Sleep",
        "2 of 2: She hums a tune in the bath. -> Music",
    ]


def test_check_reports_what_is_wrong_with_a_search(installed_toy, recipe):
    result = CliRunner().invoke(
        cli.main, ["check", str(recipe), "--set", "search.with.development=false"]
    )
    assert result.exit_code == 2
    assert "must not see test data" in result.stdout
    assert CliRunner().invoke(cli.main, ["check", str(recipe)]).exit_code == 0


def test_a_search_started_anew_takes_its_vectors_from_the_store(
    recipe_of, plugins, tmp_path
):
    text = toy_plugin.RECIPE[: toy_plugin.RECIPE.index("[[stage]]")].replace(
        "pooler =", 'prompt = { template = \'Say "{text}" is "\' }\npooler ='
    )
    text = text.replace("max_length = 16", "max_length = 5").replace(
        "width = 4", "width = 4, positions = 400"
    )
    text += "[search]\nlimit = 3\nwith = { use = 'gap', development = true }\n"
    rankings = [
        search(recipe_of(text), tmp_path / name, plugins).ranking
        for name in ("one", "two")
    ]
    assert rankings[0] == rankings[1]
    assert len({path.parent for path, _ in VectorCache().segments()}) == 4
    off = search(recipe_of(text, "run.cache=false"), tmp_path / "three", plugins)
    assert off.ranking == rankings[0]
