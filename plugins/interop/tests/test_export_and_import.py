from __future__ import annotations

import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import Encoder, ModelError, RunError
from sentbed._cli.main import main
from sentbed_interop.export_and_import import export_encoder, import_encoder


@pytest.fixture
def saved(tmp_path, installed_toy):
    """An encoder of width 4 on disk; the toy plugin is installed."""
    Encoder.of(
        {
            "max_length": 16,
            "backbone": {"use": "characters", "width": 4},
            "pooler": {"use": "average"},
        },
        toy_plugin.Toy(),
    ).save(tmp_path / "encoder")
    return tmp_path / "encoder"


def test_an_exporter_writes_into_a_new_directory_with_its_options(saved, tmp_path):
    target = tmp_path / "out"
    notes = export_encoder(saved, target, "numbers", ["digits=1"], toy_plugin.Toy())
    assert notes == ("1 digits are left",)
    vectors = Encoder.load(saved, toy_plugin.Toy()).encode(["abc", "bcd"])
    assert (target / "numbers.txt").read_text().split() == [
        f"{x:.1f}" for x in vectors.mean(axis=0)
    ]


def test_what_cannot_be_expressed_leaves_nothing_behind(saved, tmp_path):
    file = saved / "encoder.toml"
    file.write_text(file.read_text().replace("max_length = 16", "max_length = 13"))
    with pytest.raises(
        ModelError, match="13 tokens cannot be expressed; set `max_length` to 12"
    ):
        export_encoder(saved, tmp_path / "out", "numbers", (), toy_plugin.Toy())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["file", "directory"])
def test_what_is_at_the_place_stays(content, saved, tmp_path):
    target = tmp_path / "out"
    if content == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine").touch()
    with pytest.raises(RunError, match="is not empty; name a new directory"):
        export_encoder(saved, target, "numbers", (), toy_plugin.Toy())
    with pytest.raises(RunError, match="is not empty; name a new directory"):
        import_encoder(saved, target, "numbers")


@pytest.mark.parametrize(
    ("to", "options", "message"),
    [
        (
            "nubmers",
            [],
            "`--to nubmers`: there is no exporter `nubmers`. Did you mean `numbers`?",
        ),
        (
            "numbers",
            ["digits=many", "digit=1"],
            "`--set digits`: found 'many', expected a whole number; "
            "`--set digit`: unknown key `digit`. Did you mean `digits`?",
        ),
        (
            "numbers",
            ["digits"],
            "`--to numbers`: found the override 'digits', expected `PATH=VALUE`",
        ),
    ],
)
def test_a_wrong_name_or_option_of_an_exporter_is_said(
    to, options, message, saved, tmp_path
):
    with pytest.raises(RunError) as caught:
        export_encoder(saved, tmp_path / "out", to, options, toy_plugin.Toy())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("from_", "options", "message"),
    [
        (
            "nubmers",
            [],
            "`--from nubmers`: there is no importer `nubmers`. Did you mean `numbers`?",
        ),
        (
            "numbers",
            ["max_length=x"],
            "`--set max_length`: found 'x', expected a whole number",
        ),
    ],
)
def test_a_wrong_name_or_option_of_an_importer_is_said(
    from_, options, message, saved, tmp_path
):
    with pytest.raises(RunError) as caught:
        import_encoder(saved, tmp_path / "out", from_, options)
    assert str(caught.value) == message


def test_options_without_an_exporter_are_refused(saved, tmp_path):
    with pytest.raises(RunError, match="without `--to` there is nothing to set"):
        export_encoder(saved, tmp_path / "out", None, ["digits=3"], toy_plugin.Toy())


def test_an_imported_encoder_is_saved(saved, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "numbers.txt").write_text("1\n2\n3\n")
    import_encoder(tmp_path / "source", tmp_path / "out", "numbers", ["max_length=5"])
    loaded = Encoder.load(tmp_path / "out", toy_plugin.Toy())
    assert (loaded.width, loaded.recipe.max_length) == (3, 5)


def test_a_source_that_is_not_there_is_said(saved, tmp_path):
    with pytest.raises(ModelError, match="does not exist; check the path"):
        import_encoder(tmp_path / "nowhere", tmp_path / "out", "numbers")


def test_the_commands_print_where_it_is(saved, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "numbers.txt").write_text("1\n2\n")
    arguments = [
        "import",
        str(tmp_path / "source"),
        str(tmp_path / "out"),
        "--from",
        "numbers",
    ]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.output.split(":")[0]) == (0, str(tmp_path / "out"))

    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.output) == (
        1,
        f"error: `{tmp_path / 'out'}` is not empty; name a new directory\n",
    )
