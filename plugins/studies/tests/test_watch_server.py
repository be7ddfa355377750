"""The server behind `sentbed study watch`: what it answers, to whom, and when it renews the page."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from http.client import HTTPConnection

import pytest
from browser import browse, needed
from sentbed.errors import RunError
from sentbed.tools import locked
from sentbed_report.study.read_study_directory import lock_of
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from sentbed_studies.study_reports import write_reports
from sentbed_studies.watch_server import StudyServer, WatchedStudy
from toy_plugin import TOWERS

AXES = """
[study]
seeds = [1]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]


@pytest.fixture
def study(put):
    return read_study(put("study.toml", TOWERS + AXES))


@pytest.fixture
def directory(study, copied):
    """A study of two cells, of which one has run."""
    return copied(lambda kept: run_study(study, kept, only=[{"lr": "0.5"}]))


@pytest.fixture
def server(directory):
    with StudyServer(directory) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, method="GET", host=None):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    headers = {"Host": host or f"127.0.0.1:{server.server_port}"}
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def state(server):
    return json.loads(ask(server, "/state")[1])


def test_the_page_is_the_report_with_one_script_more_that_its_policy_lets_run(
    server, directory
):
    response, page = ask(server, "/")
    assert (response.status, response.headers["Content-Type"]) == (
        200,
        "text/html; charset=utf-8",
    )
    assert response.headers["Cache-Control"] == "no-store"

    *scripts, live = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = b64encode(hashlib.sha256(live.encode()).digest()).decode()
    report = write_reports(directory).read_text()
    assert re.findall(r"<script>(.*?)</script>", report, re.DOTALL) == scripts
    assert state(server)["fingerprint"] in live
    page = page.replace(f"'sha256-{digest}' ", "", 1).replace(
        "connect-src 'self'; ", "", 1
    )
    assert page.replace(f"<script>{live}</script>\n", "") == report


def test_the_state_changes_when_a_run_has_ended_and_the_page_with_it(
    server, study, directory
):
    _, page = ask(server, "/")
    before = state(server)
    assert (before["finished"], before["total"]) == (1, 2)
    assert before["progress"] == ["1 of 2 runs finished", *before["progress"][1:]]
    assert state(server) == before
    assert ask(server, "/")[1] == page
    assert before["fingerprint"] in page

    run_study(study, directory)
    after = state(server)
    assert after["fingerprint"] != before["fingerprint"]
    assert (after["progress"], after["seconds_left"]) == (["2 of 2 runs finished"], 0.0)
    renewed = ask(server, "/")[1]
    assert "1 of 2 runs finished" in page
    assert "2 of 2 runs finished" in renewed
    assert after["fingerprint"] in renewed


def test_the_state_has_how_far_the_runs_are_that_are_at_work(server, study, directory):
    _, cell = json.loads((directory / "study.json").read_text())["cells"]
    run = directory / cell["runs"][0]["directory"]
    run.mkdir()
    now = time.time()
    events = [
        {"event": "run_started", "time": now - 10},
        {"event": "stage_started", "time": now - 10, "stage": "tune", "total_steps": 7},
        {
            "event": "step_finished",
            "time": now - 5,
            "stage": "tune",
            "step": 3,
            "loss": 0.5,
        },
    ]
    (run / "log.jsonl").write_text(
        "".join(json.dumps(event) + "\n" for event in events)
    )
    (run / "manifest.json").write_text(json.dumps({"status": "running"}))
    with locked(lock_of(directory, run)):
        at_work = state(server)
        assert at_work["progress"][1].startswith(
            "0.25, seed 1: running: stage tune: step 3 of 7, loss 0.5"
        )
    # A process that is killed writes nothing more.
    killed = state(server)
    assert killed["fingerprint"] != at_work["fingerprint"]
    assert len(killed["progress"]) == 2


def test_the_state_is_asked_of_no_run_that_has_finished(directory, monkeypatch):
    reason = "a page shows no line on a finished run"
    monkeypatch.setattr(
        "sentbed_studies.study_status.missing_evaluations",
        lambda *_: pytest.fail(reason),
    )
    assert WatchedStudy(directory).state()["finished"] == 1


@needed
def test_a_browser_shows_the_state_below_the_head_of_the_page(server, tmp_path):
    dom = browse(server.url, tmp_path, "--dump-dom")
    assert '<pre class="progress">1 of 2 runs finished\nleft: about ' in dom


def test_nothing_else_is_served(server):
    paths = [
        "/study.json",
        "/../study.json",
        "/%2e%2e/study.json",
        "//etc/passwd",
        "/cells",
        "/?",
        "/items/1",
        "x",
    ]
    for path in paths:
        response, text = ask(server, path)
        assert (path, response.status, text) == (
            path,
            404,
            "there are only /, /state, the pages of items and the reports of runs\n",
        )


def test_links_of_the_page_to_runs_lead_to_their_reports_in_which_nothing_runs(
    server, directory
):
    addresses = re.findall(r'href="(cells/[^"]+)"', ask(server, "/")[1])
    assert len(addresses) == 1
    (address,) = addresses
    response, page = ask(server, f"/{address}")
    assert response.status == 200
    assert page == (directory / address).read_text()
    policy = response.headers["Content-Security-Policy"].split("; ")
    assert policy[:2] == ["sandbox", "default-src 'none'"]
    assert not any(directive.startswith("script-src") for directive in policy)


def test_a_run_s_other_files_and_a_report_that_leads_out_are_not_served(
    server, directory, tmp_path
):
    (address,) = re.findall(r'href="(cells/[^"]+)"', ask(server, "/")[1])
    run = address.removesuffix("/report.html")
    assert (directory / run / "report.json").is_file()
    changed = (
        f"/{run}/report.json",
        f"/{run}/",
        f"/{run}/./report.html",
        f"/x/../{address}",
    )
    for path in changed:
        assert (path, ask(server, path)[0].status) == (path, 404)
    report = directory / address
    report.unlink()
    assert ask(server, f"/{address}")[0].status == 404
    (tmp_path / "secret.html").write_text("secret")
    report.symlink_to(tmp_path / "secret.html")
    assert ask(server, f"/{address}")[0].status == 404


def test_only_this_server_by_its_own_names_is_answered(server):
    port = server.server_port
    assert ask(server, "/state", host=f"localhost:{port}")[0].status == 200
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        "localhost:1",
        f"0.0.0.0:{port}",
    ):
        for path in ("/", "/state"):
            response, text = ask(server, path, host=host)
            assert (host, response.status) == (host, 403)
            assert "towers" not in text


def test_only_get_is_answered(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "FETCH"):
        response, _ = ask(server, "/", method)
        assert (method, response.status, response.headers["Allow"]) == (
            method,
            405,
            "GET",
        )


def test_a_study_that_is_damaged_meanwhile_is_an_answer_and_comes_back(
    server, directory
):
    content = (directory / "study.json").read_text()
    (directory / "study.json").write_text("{")
    response, text = ask(server, "/state")
    assert (response.status, "is damaged" in text) == (500, True)
    (directory / "study.json").write_text(content)
    assert ask(server, "/")[0].status == 200


def test_a_directory_without_a_study_and_a_port_that_is_taken_are_errors(
    server, directory, tmp_path
):
    with pytest.raises(RunError, match="is no study"):
        StudyServer(tmp_path)
    with pytest.raises(
        RunError,
        match=rf"port {server.server_port} cannot be served on .*; choose another `--port`",
    ):
        StudyServer(directory, server.server_port)


def test_a_page_that_is_closed_too_early_prints_nothing(server, capsys):
    for error in (ConnectionResetError(), BrokenPipeError(), ValueError("of ours")):
        try:
            raise error
        except (OSError, ValueError):
            server.handle_error(None, ("127.0.0.1", 1))
    errors = capsys.readouterr().err
    assert "Reset" not in errors
    assert "BrokenPipe" not in errors
    assert "of ours" in errors


@pytest.fixture
def heeds_ctrl_c():
    # A shell starts its background jobs with SIGINT ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_ends_the_command_with_a_sentence(directory):
    # In a process of its own: a signal that came too early would end the one that runs the tests.
    process = subprocess.Popen(
        [sys.executable, "-m", "sentbed", "study", "watch", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    connection = HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=30)
    connection.request("GET", "/state")
    assert connection.getresponse().status == 200

    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert output == ""
    assert (
        errors.splitlines()[-1]
        == f"`{directory}` is not watched any more; its runs go on"
    )
