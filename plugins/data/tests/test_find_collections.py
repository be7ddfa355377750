from __future__ import annotations

import io
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from file_server import Served, serving
from sentbed import DataError, RunError
from sentbed._registry.registry import load_plugins
from sentbed_common import KnownArchive, KnownData, KnownFile, KnownMade
from sentbed_data.download import DownloadBars, fetch
from sentbed_data.find_collections import (
    INCOMPLETE,
    KNOWN,
    MISSING,
    PRESENT,
    UNKNOWN,
    WRONG,
    collections,
    count_rows,
    data_base,
    find_collection,
    inspect_collection,
)
from sentbed_data.get_collection import get_missing_files, unpack

TEXT = b"".join(b"line %d\n" % i for i in range(20_000))
"""Longer than what is read at a time."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        yield running


def digest(content):
    return sha256(content).hexdigest()


def silent(what, done, total):
    pass


def toy(*files, **more):
    return KnownData(
        "toy", "for tests", ("toy", "old/toy"), files, "https://example.org/toy", **more
    )


def write(directory, contents):
    for name, content in contents.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def tar_of(members, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


# --- what is there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", 0),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\nb", 2),
        (b"\n\n", 2),
        ("caf\u00e9 \u0085 one line\x0c\x1c\r still\n".encode("latin-1"), 1),
    ],
)
def test_rows_are_counted_by_the_byte_that_ends_a_line(tmp_path, content, rows):
    write(tmp_path, {"a": content})
    assert count_rows(tmp_path / "a") == rows


def test_rows_are_counted_across_blocks(tmp_path):
    write(tmp_path, {"a": b"x" * (1 << 20) + b"\n" + b"y" * (1 << 20)})
    assert count_rows(tmp_path / "a") == 2


@pytest.mark.parametrize(
    ("file", "content", "state", "detail"),
    [
        (KnownFile("a", rows=2), None, MISSING, ""),
        (KnownFile("a", rows=2), b"1\n2\n", PRESENT, ""),
        (KnownFile("a"), b"1\n", PRESENT, ""),
        (KnownFile("a", rows=2, header=True), b"h\n1\n2\n", PRESENT, ""),
        (KnownFile("a", rows=2, header=True), b"1\n2\n", WRONG, "1 rows, expected 2"),
        (KnownFile("a", rows=2), b"1\n2\n3\n", WRONG, "3 rows, expected 2"),
        (KnownFile("a", rows=2, at_least=True), b"1\n2\n3\n", PRESENT, ""),
        (
            KnownFile("a", rows=2, at_least=True),
            b"1\n",
            WRONG,
            "1 rows, expected at least 2",
        ),
        (KnownFile("a", rows=1, sha256=("0" * 64, digest(b"1\n"))), b"1\n", KNOWN, ""),
        (
            KnownFile("a", rows=1, sha256=("0" * 64,)),
            b"1\n",
            UNKNOWN,
            f"sha256 {digest(b'1' + bytes([10]))}",
        ),
        (
            KnownFile("a", rows=2, sha256=(digest(b"1\n"),)),
            b"1\n",
            WRONG,
            "1 rows, expected 2",
        ),
    ],
)
def test_a_file_is_compared_with_what_is_known_of_it(
    tmp_path, file, content, state, detail
):
    if content is not None:
        write(tmp_path, {"toy/a": content})
    (inspected,) = inspect_collection(toy(file), tmp_path, digests=True).files
    assert (inspected.state, inspected.detail, inspected.path) == (
        state,
        detail,
        tmp_path / "toy/a",
    )


def test_digests_are_left_alone_unless_asked_for(tmp_path):
    write(tmp_path, {"toy/a": b"1\n"})
    assert (
        inspect_collection(toy(KnownFile("a", sha256=("0" * 64,))), tmp_path).state
        == PRESENT
    )


def test_a_collection_is_as_good_as_its_worst_file_and_names_it(tmp_path):
    collection = toy(
        KnownFile("a", rows=1, sha256=(digest(b"1\n"),)),
        KnownFile("b", rows=1, sha256=("0" * 64,)),
        KnownFile("c"),
    )
    assert inspect_collection(collection, tmp_path).state == MISSING
    write(tmp_path, {"toy/a": b"1\n"})
    inspection = inspect_collection(collection, tmp_path, digests=True)
    assert (inspection.state, inspection.detail) == (
        INCOMPLETE,
        "without b and 1 more, of 3 files",
    )
    write(tmp_path, {"toy/b": b"1\n", "toy/c": b""})
    assert inspect_collection(collection, tmp_path).state == PRESENT
    inspection = inspect_collection(collection, tmp_path, digests=True)
    assert (inspection.state, inspection.detail) == (UNKNOWN, "b, of 3 files")
    write(tmp_path, {"toy/b": b""})
    assert inspect_collection(collection, tmp_path).state == WRONG


def test_an_optional_file_may_be_missing_but_not_wrong(tmp_path):
    collection = toy(KnownFile("a"), KnownFile("b", rows=1, optional=True))
    write(tmp_path, {"toy/a": b""})
    inspection = inspect_collection(collection, tmp_path)
    assert (inspection.state, inspection.bad) == (PRESENT, ())
    write(tmp_path, {"toy/b": b""})
    assert [
        item.file.path for item in inspect_collection(collection, tmp_path).bad
    ] == ["b"]


def test_a_collection_is_found_at_each_of_its_places(tmp_path):
    collection = toy(KnownFile("a"))
    assert inspect_collection(collection, tmp_path).directory == tmp_path / "toy"
    write(tmp_path, {"old/toy/a": b""})
    assert inspect_collection(collection, tmp_path).directory == tmp_path / "old/toy"
    write(tmp_path, {"toy/a": b""})
    assert inspect_collection(collection, tmp_path).directory == tmp_path / "toy"


def test_a_file_may_have_another_path_or_another_name(tmp_path):
    collection = toy(
        KnownFile("x"),
        KnownFile("deep/a/b", others=("a/b",)),
        KnownFile("c", others=("d",)),
    )
    write(tmp_path, {"toy/x": b"", "toy/a/other": b"", "toy/d": b""})
    _, b, c = inspect_collection(collection, tmp_path).files
    assert (b.state, b.path) == (MISSING, tmp_path / "toy/a/b")
    assert (c.state, c.path) == (PRESENT, tmp_path / "toy/d")


def test_without_a_data_directory_nothing_is_there():
    inspection = inspect_collection(toy(KnownFile("a")), None)
    assert (inspection.state, str(inspection.directory)) == (
        MISSING,
        "$SENTBED_DATA/toy",
    )


def test_the_data_directory_is_the_one_named_or_that_of_the_environment(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_DATA", "/data")
    assert data_base(None) == Path("/data")
    assert data_base(str(tmp_path)) == tmp_path
    monkeypatch.delenv("SENTBED_DATA")
    assert data_base(None) is None


# --- what is known -----------------------------------------------------------------------------------------

PLUGIN = """
import sentbed
from sentbed_common import KnownData, KnownFile

@sentbed.hookimpl
def known_data():
    return [KnownData(name, "x", ("x",), (KnownFile("x"),), "https://example.org") for name in NAMES]
"""


def test_plugins_say_what_is_known_and_a_misspelt_name_gets_a_suggestion(distribute):
    plugins = load_plugins(
        distribute("one", {"one_plugin": "NAMES = ['glue', 'apple']" + PLUGIN})
    )
    assert list(collections(plugins)) == ["apple", "glue"]
    assert find_collection(plugins, "glue").name == "glue"
    with pytest.raises(
        DataError, match=r"no known data `gleu`\. Did you mean `glue`\?"
    ):
        find_collection(plugins, "gleu")


def test_two_plugins_may_not_claim_one_name(distribute):
    source = "NAMES = ['glue']" + PLUGIN
    points = [
        *distribute("one", {"one_plugin": source}),
        *distribute("two", {"two_plugin": source}),
    ]
    with pytest.raises(
        Exception, match=r"`glue` is known to `.*one_plugin` and to `.*two_plugin`"
    ):
        collections(load_plugins({point.name: point for point in points}.values()))


def test_how_to_get_names_the_command_or_what_is_to_be_done_by_hand():
    assert (
        toy(KnownFile("a", url="http://x")).how_to_get
        == "`sentbed data get toy` downloads it"
    )
    assert toy(
        KnownFile("a"), archives=(KnownArchive("http://x"),)
    ).how_to_get.startswith("`sentbed data get")
    assert (
        toy(KnownFile("a"), advice="fill in the form").how_to_get == "fill in the form"
    )
    assert toy(KnownFile("a")).how_to_get == "see https://example.org/toy"


# --- one download ------------------------------------------------------------------------------------------


def fetched(server, directory, digests=()):
    """Download `a` and return its content."""
    fetch(f"{server.url}/a", directory / "a", digests, silent)
    return (directory / "a").read_bytes()


def leftovers(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_download_says_how_far_it_is_and_leaves_the_file_alone(server, tmp_path):
    server.files["/a"] = Served(TEXT)
    steps = []
    fetch(
        f"{server.url}/a",
        tmp_path / "new/a",
        {digest(TEXT)},
        lambda *progress: steps.append(progress),
    )
    assert (tmp_path / "new/a").read_bytes() == TEXT
    assert leftovers(tmp_path / "new") == ["a"]
    assert steps[-1] == ("a", len(TEXT), len(TEXT))
    assert [done for _, done, _ in steps] == sorted({done for _, done, _ in steps})
    assert len(steps) > 1


def test_a_file_whose_size_is_not_said_is_taken_as_it_comes(server, tmp_path):
    server.files["/a"] = Served(TEXT, length=False)
    assert fetched(server, tmp_path) == TEXT


def test_an_empty_file_is_a_file(server, tmp_path):
    server.files["/a"] = Served(b"")
    assert fetched(server, tmp_path, {digest(b"")}) == b""


def test_redirects_are_followed(server, tmp_path):
    server.files["/a"] = Served(status=302, location="/b")
    server.files["/b"] = Served(TEXT)
    assert fetched(server, tmp_path, {digest(TEXT)}) == TEXT


def test_a_connection_that_is_cut_leaves_nothing(server, tmp_path):
    server.files["/a"] = Served(TEXT, cut=70_000)
    with pytest.raises(DataError, match="only 70,000 of"):
        fetched(server, tmp_path)
    assert leftovers(tmp_path) == []


def test_a_wrong_digest_is_refused_and_what_was_there_stays(server, tmp_path):
    server.files["/a"] = Served(b"changed")
    write(tmp_path, {"a": b"mine"})
    with pytest.raises(DataError) as raised:
        fetched(server, tmp_path, {"0" * 64})
    assert digest(b"changed") in str(raised.value)
    assert "0" * 64 in str(raised.value)
    assert leftovers(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"mine"


def test_a_file_that_the_server_does_not_give_is_named_with_what_to_do(
    server, tmp_path
):
    server.files["/a"] = Served(status=404)
    with pytest.raises(
        DataError,
        match=r"/a cannot be downloaded: .*404.*by hand: download .*/a, put it at `.*/a`",
    ):
        fetched(server, tmp_path)
    assert leftovers(tmp_path) == []
    assert len(server.requests) == 1


def test_a_server_that_is_gone_is_named_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        url = f"{running.url}/a"
    with pytest.raises(
        DataError,
        match=r"127.0.0.1:\d+/a cannot be downloaded: .*refused.*`HTTPS_PROXY`.*by hand",
    ):
        fetch(url, tmp_path / "a", (), silent)
    assert leftovers(tmp_path) == []


def test_the_proxy_of_the_environment_is_used(server, monkeypatch, tmp_path):
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    server.files["http://nowhere.invalid/a"] = Served(TEXT)
    fetch("http://nowhere.invalid/a", tmp_path / "a", (), silent)
    assert (tmp_path / "a").read_bytes() == TEXT


def test_a_place_that_cannot_be_written_is_said(server, tmp_path):
    write(tmp_path, {"file": b""})
    with pytest.raises(RunError, match="cannot write"):
        fetch(f"{server.url}/a", tmp_path / "file/a", (), silent)


def test_without_a_terminal_a_download_is_one_line_with_its_size(
    capsys,
):
    with DownloadBars() as bars:
        for done in (1, 500_000, 1_500_000):
            bars("a.zip", done, 1_500_000)
        bars("b", 1, None)
    assert capsys.readouterr().err.splitlines() == [
        "downloading a.zip (1.5 MB)",
        "downloading b (size unknown)",
    ]


# --- archives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.zip", zip_of),
        ("a.tar", tar_of),
        ("a.tar.gz", lambda members: tar_of(members, "w:gz")),
        ("a.tgz", lambda members: tar_of(members, "w:gz")),
    ],
)
def test_files_are_taken_out_of_an_archive_wherever_they_lie_in_it(
    tmp_path, name, pack
):
    members = {
        "top/x/a": TEXT,
        "./b": b"b",
        "top/more/x/a": b"deeper",
        "top/__MACOSX/x/._a": b"",
        "ab": b"",
    }
    write(tmp_path, {name: pack(members)})
    unpack(
        tmp_path / name,
        {"x/a": tmp_path / "x/a", "b": tmp_path / "b", "absent": tmp_path / "absent"},
    )
    assert (tmp_path / "x/a").read_bytes() == TEXT
    assert (tmp_path / "b").read_bytes() == b"b"
    assert leftovers(tmp_path) == sorted([name, "b", "x"])
    assert leftovers(tmp_path / "x") == ["a"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.zip", b"no archive"),
        ("a.tar", b"no archive"),
        ("a.zip", zip_of({"a": TEXT})[:-100]),
        ("a.tgz", tar_of({"a": TEXT}, "w:gz")[:-1000]),
        (
            "a.zip",
            zip_of({"a": TEXT}).replace(zip_of({"a": TEXT})[200:300], b"?" * 100),
        ),
    ],
)
def test_a_damaged_archive_gives_no_half_file(tmp_path, name, content):
    write(tmp_path, {name: content})
    with pytest.raises(DataError, match=r"the archive is damaged .*download it again"):
        unpack(tmp_path / name, {"a": tmp_path / "a"})
    assert leftovers(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
def test_an_archive_that_cannot_be_opened_is_not_called_damaged(name, tmp_path):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)"):
        unpack(tmp_path / name, {"a": tmp_path / "a"})


# --- a collection ------------------------------------------------------------------------------------------


def test_only_what_is_missing_is_downloaded(server, tmp_path):
    server.files["/a"] = server.files["/b"] = Served(b"1\n")
    collection = toy(
        KnownFile("a", rows=1, url=f"{server.url}/a"),
        KnownFile("sub/b", rows=1, url=f"{server.url}/b"),
    )
    write(tmp_path, {"toy/a": b"x\n"})
    inspection = get_missing_files(collection, tmp_path, silent)
    assert (inspection.state, inspection.directory) == (PRESENT, tmp_path / "toy")
    assert (tmp_path / "toy/a").read_bytes() == b"x\n"
    assert server.requests == ["/b"]
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert len(server.requests) == 1


def test_a_file_that_cannot_be_right_is_kept_aside(server, tmp_path):
    server.files["/a"] = Served(b"1\n2\n")
    server.files["/b.zip"] = Served(zip_of({"b": b"1\n2\n"}))
    collection = toy(
        KnownFile("a", rows=2, url=f"{server.url}/a"),
        KnownFile("b", rows=2),
        archives=(KnownArchive(f"{server.url}/b.zip"),),
    )
    write(tmp_path, {"toy/a": b"mine\n", "toy/a.old": b"older", "toy/b": b"mine\n"})
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert leftovers(tmp_path / "toy") == ["a", "a.old", "a.old2", "b", "b.old"]
    assert (tmp_path / "toy/a.old2").read_bytes() == b"mine\n"
    assert (tmp_path / "toy/b").read_bytes() == b"1\n2\n"


def test_a_file_with_its_rows_and_an_unknown_digest_is_left_alone(server, tmp_path):
    write(tmp_path, {"toy/a": b"1\n"})
    collection = toy(KnownFile("a", rows=1, sha256=("0" * 64,), url=f"{server.url}/a"))
    assert get_missing_files(collection, tmp_path, silent).state == UNKNOWN
    assert server.requests == []


def test_only_archives_that_hold_something_missing_are_downloaded(server, tmp_path):
    first, second = zip_of({"x/a": b"a"}), tar_of({"top/y/b": b"b"}, "w:gz")
    server.files["/x.zip"], server.files["/y.tar.gz"] = (
        Served(first),
        Served(second),
    )
    collection = toy(
        KnownFile("x/a"),
        KnownFile("y/b", sha256=(digest(b"b"),)),
        archives=(
            KnownArchive(f"{server.url}/x.zip", "x/", digest(first)),
            KnownArchive(f"{server.url}/y.tar.gz", "y/"),
        ),
    )
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert leftovers(tmp_path / "toy") == ["x", "y"]
    (tmp_path / "toy/y/b").unlink()
    server.requests.clear()
    get_missing_files(collection, tmp_path, silent)
    assert server.requests == ["/y.tar.gz"]


def test_an_archive_that_is_there_already_is_taken_and_left(server, tmp_path):
    archive = zip_of({"a": b"a"})
    collection = toy(
        KnownFile("a"),
        archives=(KnownArchive(f"{server.url}/x.zip", sha256=digest(archive)),),
    )
    write(tmp_path, {"toy/x.zip": b"another"})
    with pytest.raises(DataError, match="is not the archive"):
        get_missing_files(collection, tmp_path, silent)
    write(tmp_path, {"toy/x.zip": archive})
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert leftovers(tmp_path / "toy") == ["a", "x.zip"]
    assert server.requests == []


def test_a_damaged_archive_is_not_kept(server, tmp_path):
    server.files["/x.zip"] = Served(b"an error page")
    collection = toy(KnownFile("a"), archives=(KnownArchive(f"{server.url}/x.zip"),))
    with pytest.raises(DataError, match="damaged"):
        get_missing_files(collection, tmp_path, silent)
    assert leftovers(tmp_path / "toy") == []


def test_an_archive_that_was_downloaded_is_not_kept_if_its_files_cannot_be_written(
    server, tmp_path
):
    server.files["/x.zip"] = Served(zip_of({"sub/a": b"a"}))
    collection = toy(
        KnownFile("sub/a"), archives=(KnownArchive(f"{server.url}/x.zip"),)
    )
    write(tmp_path, {"toy/sub": b"a file where a directory is needed"})
    with pytest.raises(RunError, match="cannot write"):
        get_missing_files(collection, tmp_path, silent)
    assert leftovers(tmp_path / "toy") == ["sub"]


def test_what_the_archive_lacks_is_still_missing_afterwards(server, tmp_path):
    server.files["/x.tar"] = Served(tar_of({"a": b"a"}))
    collection = toy(
        KnownFile("a"), KnownFile("b"), archives=(KnownArchive(f"{server.url}/x.tar"),)
    )
    inspection = get_missing_files(collection, tmp_path, silent)
    assert (inspection.state, [item.file.path for item in inspection.bad]) == (
        INCOMPLETE,
        ["b"],
    )


def test_files_are_made_of_others(server, tmp_path):
    server.files["/raw"] = Served(b"1\n2\n")
    directories = []

    def halves(directory):
        directories.append(directory)
        first, second = (directory / "raw").read_bytes().splitlines(keepends=True)
        return {"a": first, "b": second}

    raw = KnownFile("raw", rows=2, url=f"{server.url}/raw")
    collection = toy(
        KnownFile("a", rows=1),
        KnownFile("b", rows=1),
        made=(KnownMade(("a", "b"), (raw,), halves),),
    )
    write(tmp_path, {"toy/b": b"mine\n"})
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert (tmp_path / "toy/a").read_bytes() == b"1\n"
    assert (tmp_path / "toy/b").read_bytes() == b"mine\n"
    get_missing_files(collection, tmp_path, silent)
    assert directories == [tmp_path / "toy"]
    (tmp_path / "toy/a").unlink()
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert (len(directories), server.requests) == (2, ["/raw"])


def test_what_has_no_source_says_what_to_do_by_hand_and_where_it_belongs(
    tmp_path,
):
    with pytest.raises(DataError) as raised:
        get_missing_files(
            toy(KnownFile("a"), advice="fill in the form"), tmp_path, silent
        )
    assert str(raised.value) == (
        f"`toy` cannot be downloaded: fill in the form; its files belong in `{tmp_path / 'toy'}`: a"
    )


def test_optional_files_alone_are_no_reason_to_download(server, tmp_path):
    collection = toy(
        KnownFile("a"), KnownFile("b", optional=True, url=f"{server.url}/b")
    )
    write(tmp_path, {"toy/a": b""})
    assert get_missing_files(collection, tmp_path, silent).state == PRESENT
    assert server.requests == []
