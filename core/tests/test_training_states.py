from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from damage import flip, truncate
from sentbed import PluginError, RunError
from sentbed._run import training_states as states

FILES = ["checksums.json", "state.json", "trainer/deep/rng", "trainer/weights"]
CONTENT = {"facts": {"seed": 7}, "kept": {}, "trackers": {"jsonl": {"bytes": 3}}}


def fill(directory):
    (directory / "weights").write_bytes(bytes(range(256)))
    (directory / "deep").mkdir()
    (directory / "deep" / "rng").write_text("42")


def names(run):
    return sorted(path.name for path in (run / "states").iterdir())


def test_a_state_is_read_as_it_was_written(tmp_path):
    written = states.write_state(tmp_path, 1, 30, CONTENT, fill)
    (state,) = states.saved_states(tmp_path)
    assert (state.path, state.stage, state.step, state.content) == (
        written.path,
        1,
        30,
        {},
    )
    read = states.read(state)
    assert read.content == {"schema": 1, **CONTENT}
    assert (read.trainer / "weights").read_bytes() == bytes(range(256))
    assert names(tmp_path) == ["01-00000030"]


def test_a_state_between_stages_has_no_trainer(tmp_path):
    state = states.write_state(tmp_path, 1, 0, CONTENT, None)
    assert not state.trainer.exists()
    assert states.read(state).content["facts"] == {"seed": 7}


def test_states_are_found_newest_first_by_stage_and_step(tmp_path):
    for stage, step in [(0, 9), (1, 0), (0, 10), (10, 0), (2, 5)]:
        states.write_state(tmp_path, stage, step, {}, None)
    (tmp_path / "states" / "notes").mkdir()
    positions = [(state.stage, state.step) for state in states.saved_states(tmp_path)]
    assert positions == [(10, 0), (2, 5), (1, 0), (0, 10), (0, 9)]


def test_a_directory_without_states_has_none(tmp_path):
    assert states.saved_states(tmp_path) == []


def test_writing_a_state_again_replaces_it(tmp_path):
    states.write_state(tmp_path, 0, 1, {"facts": 1}, fill)
    states.write_state(tmp_path, 0, 1, {"facts": 2}, None)
    (state,) = states.saved_states(tmp_path)
    assert states.read(state).content["facts"] == 2
    assert not state.trainer.exists()


# --- damage ------------------------------------------------------------------------------------------------


def damaged(tmp_path, change, name):
    state = states.write_state(tmp_path, 0, 1, CONTENT, fill)
    change(state.path / name)
    with pytest.raises(ValueError, match=r"\S") as caught:
        states.read(state)
    return str(caught.value)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [flip, truncate, empty])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_what_was_written_is_named(name, change, tmp_path):
    message = damaged(tmp_path, change, name)
    # A flipped bit of the checksums may look like damage of the file that it speaks of.
    assert message.endswith("is not what was written")
    assert name == "checksums.json" or f"`{name}`" in message


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_named(name, tmp_path):
    message = damaged(tmp_path, Path.unlink, name)
    gone = (
        "cannot be read: No such file or directory"
        if name == "checksums.json"
        else "is missing"
    )
    assert message == f"`{name}` {gone}"


def test_no_flipped_bit_of_the_checksums_goes_unseen(tmp_path):
    state = states.write_state(tmp_path, 0, 1, CONTENT, fill)
    path = state.path / "checksums.json"
    whole = path.read_bytes()
    json_spaces = set()
    for place in range(len(whole)):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            path.write_bytes(content)
            try:
                states.read(state)
            except ValueError:
                continue
            json_spaces.add(whole[place : place + 1])
    # What may change without harm is the white space between the values.
    assert json_spaces <= {b"\n", b" "}


def test_checksums_that_are_no_table_are_damage(tmp_path):
    message = damaged(tmp_path, lambda path: path.write_text("[]"), "checksums.json")
    assert message == "`checksums.json` is not what was written"


def test_a_state_of_another_schema_is_not_read(tmp_path):
    state = states.write_state(tmp_path, 0, 1, {"schema": 9}, None)
    with pytest.raises(
        ValueError, match="it has schema 9, this version of sentbed reads 1"
    ):
        states.read(state)


# --- whole or not at all -----------------------------------------------------------------------------------


def test_a_trainer_that_fails_leaves_the_earlier_state_alone(tmp_path):
    def fail(directory):
        fill(directory)
        raise OSError(28, "No space left on device")

    states.write_state(tmp_path, 0, 1, CONTENT, fill)
    with pytest.raises(RunError, match="No space left on device"):
        states.write_state(tmp_path, 0, 1, {}, fail)
    with pytest.raises(RunError, match="free some space"):
        states.write_state(tmp_path, 0, 2, {}, fail)
    assert names(tmp_path) == ["00-00000001"]
    assert states.read(states.saved_states(tmp_path)[0]).content["facts"] == {"seed": 7}


# --- which are kept ----------------------------------------------------------------------------------------


def write(run, *places):
    return [states.write_state(run, stage, step, {}, None) for stage, step in places][
        -1
    ]


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (1, ["01-00000000"]),
        (2, ["00-00000020", "01-00000000"]),
        (9, ["00-00000010", "00-00000020", "01-00000000"]),
    ],
)
def test_the_newest_states_are_kept(keep, left, tmp_path):
    last = write(tmp_path, (0, 10), (0, 20), (1, 0))
    states.prune(tmp_path, last, keep)
    assert names(tmp_path) == left


@pytest.mark.parametrize(
    ("keep", "left"), [(1, ["00-00000015"]), (2, ["00-00000010", "00-00000015"])]
)
def test_damaged_states_do_not_push_out_the_one_that_was_written_last(
    keep, left, tmp_path
):
    last = write(tmp_path, (0, 10), (0, 20), (0, 30), (0, 15))
    states.prune(tmp_path, last, keep)
    assert names(tmp_path) == left


def test_what_a_killed_process_left_is_removed(tmp_path):
    last = write(tmp_path, (0, 10))
    shutil.copytree(last.path, tmp_path / "states" / ".00-00000020.k1ll3d__")
    states.prune(tmp_path, last, 2)
    assert names(tmp_path) == ["00-00000010"]


CIRCULAR: dict[str, object] = {}
CIRCULAR["itself"] = CIRCULAR


@pytest.mark.parametrize(
    ("state", "reason"), [(Path("a/b"), "PosixPath"), (CIRCULAR, "Circular reference")]
)
def test_a_tracker_whose_state_is_not_for_json_is_told_at_once(state, reason, tmp_path):
    message = rf"a tracker's state cannot be written as JSON: .*{reason}"
    with pytest.raises(PluginError, match=message):
        states.write_state(tmp_path, 0, 0, {"trackers": {"mine": state}}, None)
    assert not any((tmp_path / "states").iterdir())
