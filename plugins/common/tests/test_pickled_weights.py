"""Pickled weights: equal as safetensors, and whatever else a pickle holds is refused and not run."""

from __future__ import annotations

import collections
import importlib.util
import io
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentbed import ModelError
from sentbed_common import in_safetensors
from sentbed_common.pickled_weights import PROGRAM, problem_of_shards

WEIGHTS = "pytorch_model.bin"


@pytest.fixture(scope="session")
def program():
    """The child's program as a module; its `main` and what limits the process are not called."""
    spec = importlib.util.spec_from_file_location("convert_pickled_weights", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensors():
    """One of each type that models have, and one without numbers."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(4, 6, generator=generator)
    return {
        "embed.weight": values,
        "half": values.half(),
        "brain": values.bfloat16(),
        "double": values.double(),
        "positions": torch.arange(7),
        "mask": torch.tril(torch.ones(3, 3)).bool(),
        "transposed": values.T,
        "a piece": values[1:3, ::2],
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
    }


def require_equal(converted, expected):
    assert converted.keys() == expected.keys()
    for name, value in expected.items():
        assert converted[name].dtype == value.dtype, name
        assert torch.equal(converted[name], value), name


@pytest.mark.whole
def test_weights_are_equal_and_converted_once(tmp_path, capsys):
    saved = tensors()
    saved["head.weight"] = saved["embed.weight"]
    torch.save(saved, tmp_path / WEIGHTS)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    directory, hashes = in_safetensors(tmp_path, may_convert=True, shown="`acme/tiny`")
    require_equal(load_file(directory / "model.safetensors"), saved)
    assert (directory / "config.json").read_text() == '{"model_type": "bert"}'
    assert list(hashes) == [WEIGHTS]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "converted the pickled weights of `acme/tiny` (0.00 GB) to safetensors in "
    )
    # What was converted before needs no leave.
    assert in_safetensors(tmp_path, may_convert=False) == (directory, hashes)
    assert capsys.readouterr().err == ""
    # A changed file of settings is another model.
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        ModelError, match=r"has pickled weights .* which are not read for an encoder"
    ):
        in_safetensors(tmp_path, may_convert=False)


@pytest.mark.slow
@pytest.mark.parametrize("new_format", [True, False], ids=["archive", "legacy"])
def test_shards_are_converted_one_by_one_with_an_index(tmp_path, new_format):
    saved = tensors()
    shards = [dict(list(saved.items())[:5]), dict(list(saved.items())[5:])]
    for number, shard in enumerate(shards, 1):
        file = tmp_path / f"pytorch_model-{number:05}-of-00002.bin"
        torch.save(shard, file, _use_new_zipfile_serialization=new_format)
    directory, hashes = in_safetensors(tmp_path, may_convert=True)
    assert len(hashes) == 2
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == saved.keys()
    converted = {}
    for name in set(index["weight_map"].values()):
        converted |= load_file(directory / name)
    require_equal(converted, saved)


def test_a_missing_shard_is_named(tmp_path):
    file = tmp_path / "pytorch_model-00001-of-00003.bin"
    file.touch()
    (tmp_path / "pytorch_model-00003-of-00003.bin").touch()
    problem = problem_of_shards([file])
    assert problem is not None
    assert "not `pytorch_model-00002-of-00003.bin`" in problem


def test_safetensors_beside_pickles_are_taken(tmp_path):
    (tmp_path / WEIGHTS).write_bytes(b"not read")
    (tmp_path / "model.safetensors").touch()
    assert in_safetensors(tmp_path, may_convert=True) == (tmp_path, {})


class Calls:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.called = (function, arguments)

    def __reduce__(self):
        return self.called


class Sets:
    """Sets a state when it is unpickled."""

    def __init__(self, function, arguments, state):
        self.parts = (function, arguments, state)

    def __reduce__(self):
        return self.parts


def stored(content):
    """What `torch.save` writes."""
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def legacy(content):
    """What `torch.save` wrote before version 1.6."""
    stream = io.BytesIO()
    torch.save(content, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def archive(program, compression=zipfile.ZIP_STORED, **members):
    """A torch archive with a pickle of one's own."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as written:
        written.writestr("archive/data.pkl", program)
        written.writestr("archive/version", "3\n")
        written.writestr("archive/byteorder", "little")
        for name, content in members.items():
            written.writestr(f"archive/data/{name}", content)
    return stream.getvalue()


def half_legacy():
    """A file of before version 1.6 with two tensors, and the content of one alone."""
    stream = io.BytesIO()
    tensors = {"a": torch.ones(500), "b": torch.ones(2000)}
    torch.save(tensors, stream, _use_new_zipfile_serialization=False)
    content = stream.getvalue()
    # Behind the tensors stands the list of those whose content follows, then their content.
    start = content.index(b"]q", len(content) - 2500 * 4 - 200)
    keys = pickle.loads(content[start - 2 :])
    first = content[start - 2 + len(pickle.dumps(keys, 2)) :][: 8 + 500 * 4]
    return content[: start - 2] + pickle.dumps(keys[:1], 2) + first


STORAGE = object()
"""Stands for the storage in a pickle that is being written."""


def storage_program(numbers, size, stride, offset=0):
    """A pickle of one tensor that claims `numbers` floats in storage `0`, and a shape of its own."""
    stream = io.BytesIO()

    class Writer(pickle.Pickler):
        def persistent_id(self, part):
            return (
                ("storage", torch.FloatStorage, "0", "cpu", numbers)
                if part is STORAGE
                else None
            )

    class Rebuilt:
        def __reduce__(self):
            arguments = (
                STORAGE,
                offset,
                size,
                stride,
                False,
                collections.OrderedDict(),
            )
            return torch._utils._rebuild_tensor_v2, arguments

    Writer(stream, 2).dump({"weight": Rebuilt()})
    return stream.getvalue()


def hostile(marker):
    """Files that would make `marker`, or fill the memory, or lie, if they were believed."""
    command = f"touch {marker}"
    open_code = f"open({str(marker)!r}, 'w')"
    nested = {}
    for _ in range(300):
        nested = {"deeper": nested}
    two = archive(storage_program(2, (2,), (1,)), **{"0": bytes(8)})
    return {
        "os.system": stored({"weight": Calls(os.system, command)}),
        "subprocess": stored(
            {"weight": Calls(subprocess.call, ["touch", str(marker)])}
        ),
        "eval": stored({"weight": Calls(eval, open_code)}),
        "exec": stored({"weight": Calls(exec, open_code)}),
        "Path.touch": stored({"weight": Calls(Path.touch, marker)}),
        "import": stored({"weight": Calls(__import__, "antigravity")}),
        "getattr": stored({"weight": Calls(getattr, Path, "touch")}),
        "torch.load": stored({"weight": Calls(torch.load, str(marker))}),
        "torch.save": stored({"weight": Calls(torch.save, {}, str(marker))}),
        "torch.hub": stored({"weight": Calls(torch.hub.load, "a/b", "c")}),
        "numpy's pickle": stored({"weight": Calls(np.load, str(marker), None, True)}),
        "as a name": stored({Calls(os.system, command): torch.zeros(1)}),
        "plain pickle": pickle.dumps({"weight": Calls(os.system, command)}, 2),
        "plain pickle, protocol 5": pickle.dumps(
            {"weight": Calls(os.system, command)}, 5
        ),
        "legacy": legacy({"weight": Calls(os.system, command)}),
        "legacy, in its header": pickle.dumps(Calls(os.system, command), 2)
        + legacy(tensors()),
        "in an archive": archive(
            pickle.dumps({"weight": Calls(os.system, command)}, 2)
        ),
        "by GLOBAL alone": archive(
            b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R."
        ),
        "by INST": archive(b"(S'true'\niposix\nsystem\n."),
        "by OBJ": archive(b"(cposix\nsystem\nS'true'\no."),
        "by an extension": archive(b"\x80\x02\x82\x01."),
        "state of an ordered dict": stored(
            Sets(collections.OrderedDict, (), {"__class__": Calls(os.system, command)})
        ),
        "persistent id": archive(b"\x80\x02X\x06\x00\x00\x00system0Q."),
        "compressed": archive(
            storage_program(2, (2,), (1,)), zipfile.ZIP_DEFLATED, **{"0": bytes(8)}
        ),
        "a compressed bomb": archive(
            storage_program(1 << 18, (1 << 18,), (1,)),
            zipfile.ZIP_DEFLATED,
            **{"0": bytes(1 << 20)},
        ),
        "more numbers than the storage": archive(
            storage_program(2, (1 << 40,), (1,)), **{"0": bytes(8)}
        ),
        "a storage larger than its member": archive(
            storage_program(1 << 40, (4,), (1,)), **{"0": bytes(8)}
        ),
        "stride 0": archive(storage_program(1, (1 << 40,), (0,)), **{"0": bytes(4)}),
        "an offset outside": archive(
            storage_program(2, (2,), (1,), 1 << 40), **{"0": bytes(8)}
        ),
        "a negative size": archive(storage_program(2, (-2,), (1,)), **{"0": bytes(8)}),
        "no member of the storage": archive(storage_program(2, (2,), (1,))),
        "cut": stored(tensors())[:-200],
        "cut in the middle": two[: len(two) // 2],
        "nested tables": stored(nested),
        "a list": stored([torch.zeros(2)]),
        "a number": stored({"step": 3}),
        "a text": stored({"weight": "x" * 100}),
        "a sparse tensor": stored({"weight": torch.eye(3).to_sparse()}),
        "eight-bit floats": stored({"weight": torch.zeros(2).to(torch.float8_e4m3fn)}),
        "complex numbers": stored({"weight": torch.zeros(2, dtype=torch.complex64)}),
        "a module": stored(torch.nn.Linear(2, 2)),
        "a name that no weight has": stored({"a\x1b[2Jb": torch.zeros(2)}),
        "a long name": stored({"w" * 5000: torch.zeros(2)}),
        "claimed memory, legacy": half_legacy(),
        "no entries": archive(b"\x80\x02" + b"}q\x00" * 1000 + b"."),
        "nothing": b"",
        "text": b"<html>404</html>",
        "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\n",
        "zeros": bytes(4096),
    }


CASES = list(hostile(Path("/nowhere")))


def test_a_file_that_ends_too_early_is_reported_as_damaged(program, tmp_path):
    (tmp_path / WEIGHTS).write_bytes(stored(tensors())[:-200])
    with pytest.raises(program.RefusedError, match="damaged, or its end is missing"):
        program.read_tensors(tmp_path / WEIGHTS)


def test_there_are_thirty_hostile_files():
    assert len(CASES) >= 30


@pytest.mark.sweep(8)
@pytest.mark.parametrize("case", CASES)
def test_a_hostile_file_is_refused_and_nothing_is_run(case, program, tmp_path):
    marker = tmp_path / "ran"
    file = tmp_path / WEIGHTS
    file.write_bytes(hostile(marker)[case])
    target = tmp_path / "model.safetensors"
    with pytest.raises(program.RefusedError) as refused:
        program.write_safetensors(
            program.read_tensors(file), target, 2 * file.stat().st_size
        )
    assert "\n" not in str(refused.value)
    assert not marker.exists()
    assert not target.exists()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_child_process_refuses_a_hostile_file(case, tmp_path):
    marker = tmp_path / "ran"
    (tmp_path / WEIGHTS).write_bytes(hostile(marker)[case])
    with pytest.raises(
        ModelError, match=r"`pytorch_model.bin` of .* is not (read|converted): "
    ) as refused:
        in_safetensors(tmp_path, may_convert=True)
    assert "\n" not in str(refused.value)
    assert not marker.exists()
    converted = Path(os.environ["SENTBED_CACHE"]) / "converted-weights"
    assert not list(converted.glob("*/*"))


def test_a_file_that_changes_while_it_is_read_is_not_kept(tmp_path, monkeypatch):
    torch.save(tensors(), tmp_path / WEIGHTS)

    def convert(source, target, shown):
        source.write_bytes(b"other weights")
        target.touch()
        return {"weights": [], "bytes": 0}

    monkeypatch.setattr("sentbed_common.pickled_weights._convert", convert)
    with pytest.raises(ModelError, match="has changed while it was read"):
        in_safetensors(tmp_path, may_convert=True)
    converted = Path(os.environ["SENTBED_CACHE"]) / "converted-weights"
    assert not [path for path in converted.iterdir() if path.is_dir()]


@pytest.mark.slow
def test_processes_that_need_the_same_model_convert_it_once(tmp_path):
    torch.save(tensors(), tmp_path / WEIGHTS)
    code = (
        "import pathlib, sys; from sentbed_common import in_safetensors; "
        "print(in_safetensors(pathlib.Path(sys.argv[1]), True)[0])"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    answers = [process.communicate() for process in processes]
    directories = {output for output, _ in answers}
    assert len(directories) == 1
    assert sum("converted the pickled weights" in errors for _, errors in answers) == 1
    require_equal(
        load_file(Path(directories.pop().strip()) / "model.safetensors"), tensors()
    )


@pytest.mark.slow
def test_a_new_installation_without_compiled_modules_converts(tmp_path, monkeypatch):
    torch.save(tensors(), tmp_path / WEIGHTS)
    # The child does not get these variables: what it would compile lies beside its modules.
    monkeypatch.setattr(
        "sentbed_common.limited_program.ENVIRONMENT",
        re.compile(r"PATH|PYTHONPATH|PYTHONPYCACHEPREFIX"),
    )
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    directory, _ = in_safetensors(tmp_path, may_convert=True)
    require_equal(load_file(directory / "model.safetensors"), tensors())
    assert not (tmp_path / "compiled").exists()


def test_the_child_gets_no_keys(monkeypatch, tmp_path):
    torch.save(tensors(), tmp_path / WEIGHTS)
    monkeypatch.setenv("HF_TOKEN", "secret")
    environments = []

    def run(*_, env, **__):
        environments.append(env)
        return subprocess.CompletedProcess([], 1, "", "stopped")

    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(ModelError, match="stopped"):
        in_safetensors(tmp_path, may_convert=True)
    (environment,) = environments
    assert "HF_TOKEN" not in environment
    assert "PATH" in environment


def test_other_safetensors_beside_pickles_do_not_stand_for_them(tmp_path, monkeypatch):
    torch.save(tensors(), tmp_path / WEIGHTS)
    (tmp_path / "value_head.safetensors").touch()
    with pytest.raises(ModelError, match="which are not read for an encoder"):
        in_safetensors(tmp_path, may_convert=False)


LIMITED = """
import importlib.util, os, pathlib, socket, subprocess, sys
spec = importlib.util.spec_from_file_location("program", sys.stdin.readline().strip())
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
directory = pathlib.Path(sys.stdin.readline().strip())
port = int(sys.stdin.readline())
def attempt(name, function):
    try:
        function()
    except BaseException as error:
        print(name, type(error).__name__)
    else:
        print(name, "succeeded")
isolated = program.leave_the_network()
print("isolated", isolated)
attempt("connect without hook", lambda: socket.create_connection(("127.0.0.1", port), 1))
program.limit_resources(2 << 30, 60, 1 << 20)
program.forbid_side_effects(directory)
attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 1))
attempt("program", lambda: subprocess.run(["true"]))
attempt("shell", lambda: os.system("true"))
attempt("fork", lambda: os.fork())
attempt("write outside", lambda: open(directory.parent / "outside", "w"))
attempt("write above", lambda: open(f"{directory}/../outside", "w"))
attempt("write beside", lambda: open(f"{directory}2", "w"))
attempt("remove", lambda: os.remove(directory.parent / "there"))
attempt("memory", lambda: bytearray(3 << 30))
attempt("write inside", lambda: (directory / "inside").write_text("1"))
"""


def test_the_child_process_reaches_nothing(tmp_path):
    """Also if reading a file ran code after all."""
    directory = tmp_path / "target"
    directory.mkdir()
    (tmp_path / "there").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-P", "-c", LIMITED],
            input=f"{PROGRAM}\n{directory}\n{port}\n",
            capture_output=True,
            text=True,
            check=True,
        )
    outcome = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    isolated = outcome.pop("isolated") == "True"
    reached = outcome.pop("connect without hook")
    # A container may forbid a network of one's own.
    assert (reached == "OSError") == isolated
    refused = (
        "connect",
        "program",
        "shell",
        "fork",
        "write outside",
        "write above",
        "write beside",
        "remove",
    )
    assert outcome == {
        **dict.fromkeys(refused, "RefusedError"),
        "memory": "MemoryError",
        "write inside": "succeeded",
    }
    assert (tmp_path / "there").exists()
    assert not (tmp_path / "outside").exists()
