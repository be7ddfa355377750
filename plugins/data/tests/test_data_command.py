from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile

import pytest
from click.testing import CliRunner
from file_server import Served, serving
from sentbed._cli import main as cli
from sentbed_common import KnownArchive, KnownData, KnownFile, KnownMade
from sentbed_data import collection_files

TEXT = b"".join(b"line %d\n" % number for number in range(20_000))


def digest(content):
    return hashlib.sha256(content).hexdigest()


def tar_of(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))

    return buffer.getvalue()


def zip_of(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)

    return buffer.getvalue()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        yield running


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def know(monkeypatch):
    """Know these collections and no others."""

    def patch(*collections):
        by_name = {}
        for collection in collections:
            by_name[collection.name] = collection

        monkeypatch.setattr(collection_files, "collections", lambda plugins: by_name)

    return patch


def data(*arguments):
    command = ["data"]
    for argument in arguments:
        command.append(str(argument))

    return CliRunner().invoke(cli.main, command)


def toy(*files, **more):
    source = "https://example.org/toy"
    return KnownData(
        name="toy",
        summary="for tests",
        places=("toy", "old/toy"),
        files=files,
        source=source,
        **more,
    )


def write(place, name, content):
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "content", "state"),
    [
        (KnownFile("a", rows=2), None, "missing"),
        (KnownFile("a", rows=2), b"1\n2\n", "present"),
        (KnownFile("a", rows=2), b"1\n2", "present"),
        (KnownFile("a"), b"1\n", "present"),
        # In Latin-1, 0x85 is a line end for readers of text.
        (KnownFile("a", rows=1), b"one \x85 line\x0c\x1c\r still\n", "present"),
        (KnownFile("a", rows=2, header=True), b"h\n1\n2\n", "present"),
        (KnownFile("a", rows=2, header=True), b"1\n2\n", "1 rows, expected 2"),
        (KnownFile("a", rows=2, at_least=True), b"1\n2\n3\n", "present"),
        (KnownFile("a", rows=2, at_least=True), b"1\n", "1 rows, expected 2"),
        (KnownFile("a", sha256=("0" * 64, digest(b"1\n"))), b"1\n", "present"),
        (KnownFile("a", sha256=("0" * 64,)), b"1\n", f"sha256 {digest(b'1' + b'2')}"),
    ],
)
def test_a_file_is_compared_with_what_is_known_of_it(know, place, file, content, state):
    know(toy(file))
    if content is not None:
        write(place, "old/toy/a", content)

    if state.startswith("sha256"):
        state = f"unknown copy, sha256 {digest(content)}"

    listed = data("list", "--check")
    assert listed.exit_code == 0
    assert state in listed.stdout

    shown = data("where", "toy", "--check")
    assert shown.exit_code == 0
    assert state in shown.stdout


def test_where_says_where_files_belong_and_how_to_get_them(know, place):
    file = KnownFile("s.csv")
    know(toy(file, advice="ask for it", licence="CC0"))
    result = data("where")
    assert f"toy: {place / 'toy'}, missing" in result.stdout
    assert "source: https://example.org/toy (CC0)" in result.stdout
    assert "ask for it" in result.stdout
    refusal = data("get", "toy")
    assert refusal.exit_code == 1
    message = "no missing file of `toy` can be downloaded: `s.csv (missing)`; "
    assert message in refusal.stderr


def test_only_missing_files_are_downloaded(know, server, place):
    files = []
    for name in "abc":
        server.files[f"/{name}.txt"] = Served(TEXT)
        url = f"{server.url}/{name}.txt"
        file = KnownFile(
            f"{name}.txt",
            rows=20_000,
            url=url,
            sha256=(digest(TEXT),),
        )
        files.append(file)

    optional = KnownFile("d.txt", optional=True, url=f"{server.url}/d.txt")
    server.files["/d.txt"] = Served(b"d")
    know(toy(*files, optional))
    other_copy = TEXT.replace(b"1", b"2")
    write(place, "toy/a.txt", other_copy)

    result = data("get", "toy")
    assert result.exit_code == 0, result.stderr
    assert server.requests == ["/b.txt", "/c.txt", "/d.txt"]
    assert (place / "toy" / "c.txt").read_bytes() == TEXT
    # A file with the right number of rows may be another copy.
    assert "a.txt: unknown copy" in result.stderr
    again = data("get", "toy")
    assert again.exit_code == 0
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (Served(b"other\n"), "SHA256"),
        (Served(TEXT, cut=1000), "cannot be downloaded"),
        (Served(status=404), "404"),
    ],
)
def test_a_download_that_fails_leaves_nothing(know, server, place, served, message):
    server.files["/a.txt"] = served
    url = f"{server.url}/a.txt"
    file = KnownFile("a.txt", url=url, sha256=(digest(TEXT),))
    know(toy(file))
    result = data("get", "toy")
    assert result.exit_code == 1
    assert message in result.stderr
    assert f"{url} cannot be downloaded" in result.stderr
    assert list((place / "toy").iterdir()) == []


def test_a_wrong_file_is_left_and_named(know, server, place):
    file = KnownFile("a.txt", rows=2, url=f"{server.url}/a.txt")
    know(toy(file))
    write(place, "toy/a.txt", b"mine\n")
    result = data("get", "toy")
    assert result.exit_code == 1
    assert "`a.txt (1 rows, expected 2)`; delete wrong files and" in result.stderr
    assert (place / "toy" / "a.txt").read_bytes() == b"mine\n"


def test_an_archive_writes_nothing_outside_of_its_directory(know, server, place):
    content = tar_of({"a": b"1", "../../outside": b"2"})
    server.files["/all.tar.gz"] = Served(content)
    archive = KnownArchive(f"{server.url}/all.tar.gz")
    know(toy(KnownFile("a"), archives=(archive,)))
    refusal = data("get", "toy")
    assert "the archive cannot be unpacked" in refusal.stderr
    assert not (place / "outside").exists()


@pytest.mark.parametrize(
    ("name", "pack"), [("all.zip", zip_of), ("all.tar.gz", tar_of)]
)
def test_files_are_taken_out_of_an_archive_wherever_they_are_in_it(
    know, server, place, name, pack
):
    members = {"top/x/y/a.txt": b"deep", "top/y/a.txt": b"a", "top/b.txt": b"b"}
    server.files[f"/{name}"] = Served(pack(members))
    archive = KnownArchive(f"{server.url}/{name}", sha256=digest(pack(members)))
    if name == "all.tar.gz":
        archive = KnownArchive(f"{server.url}/{name}")

    other = KnownArchive(f"{server.url}/other.zip", holds="z/")
    files = (
        KnownFile("y/a.txt"),
        KnownFile("b.txt"),
        KnownFile("c.txt", optional=True),
    )

    know(toy(*files, archives=(archive, other)))
    result = data("get", "toy")
    assert result.exit_code == 0, result.stderr
    assert (place / "toy" / "y" / "a.txt").read_bytes() == b"a"
    assert sorted(path.name for path in (place / "toy").iterdir()) == ["b.txt", "y"]
    assert server.requests == [f"/{name}"]


def test_an_archive_that_is_there_is_used_and_a_damaged_one_refused(
    know, server, place
):
    know(toy(KnownFile("a"), archives=(KnownArchive(f"{server.url}/all.zip"),)))
    write(place, "toy/all.zip", b"no archive")
    refusal = data("get", "toy")
    assert refusal.exit_code == 1
    assert "the archive cannot be unpacked" in refusal.stderr
    write(place, "toy/all.zip", zip_of({"a": b"1"}))
    assert data("get", "toy").exit_code == 0
    assert (place / "toy" / "all.zip").is_file()
    assert server.requests == []


def once_and_twice(directory):
    content = (directory / "source").read_bytes()
    return {"one": content, "two": content * 2}


def test_files_are_made_of_others(know, server, place):
    server.files["/source"] = Served(b"x")
    source = KnownFile("source", url=f"{server.url}/source")
    making = KnownMade(("one", "two"), (source,), f"{__name__}:once_and_twice")
    know(toy(KnownFile("one"), KnownFile("two"), made=(making,)))
    write(place, "toy/one", b"mine")
    result = data("get", "toy")
    assert result.exit_code == 0, result.stderr
    assert (place / "toy" / "one").read_bytes() == b"mine"
    assert (place / "toy" / "two").read_bytes() == b"xx"


def test_the_directory_is_the_one_named_or_that_of_the_environment(
    know, server, tmp_path, monkeypatch
):
    server.files["/a"] = Served(b"a")
    know(toy(KnownFile("a", url=f"{server.url}/a")))
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    result = data("get", "toy")
    assert "no data directory is known; set `SENTBED_DATA`" in result.stderr
    result = data("get", "toy", "--dir", tmp_path / "here")
    assert result.exit_code == 0
    assert f"export SENTBED_DATA={tmp_path / 'here'}" in result.stderr
    assert "present" in data("list", "--dir", tmp_path / "here").stdout


def test_an_unknown_name_gets_a_suggestion(place):
    result = data("get", "sentval")
    assert result.exit_code == 1
    assert "there is no known data `sentval`. Did you mean `senteval`?" in result.stderr
