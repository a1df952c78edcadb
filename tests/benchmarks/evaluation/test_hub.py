"""The Hub as it answers: real clients, in processes of their own, against a server on this machine."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

COMMITS = ["a" * 40, "633f5ee".ljust(40, "0")]
NOBODY = "http://127.0.0.1:9"
"""An address where nothing listens."""


class _Hub(http.server.BaseHTTPRequestHandler):
    """Answers as the Hub does for a gated data set with two commits."""

    def do_GET(self) -> None:
        if "/resolve/" in self.path:
            return self._answer(403, {"error": "Access to the data set is restricted."}, {"X-Error-Code": "GatedRepo"})
        if "/commits/" in self.path:
            stamp = "2025-01-01T00:00:00.000Z"
            return self._answer(
                200, [{"id": c, "title": "", "message": "", "authors": [], "date": stamp} for c in COMMITS]
            )
        return self._answer(200, {"id": "x/y", "sha": COMMITS[0], "siblings": [], "tags": [], "gated": "auto"})

    do_HEAD = do_GET

    def _answer(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        length = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        for name, value in {**length, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def python(*arguments: str, endpoint: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120)


def test_an_abbreviated_revision_is_made_whole(hub: str, tmp_path: Path) -> None:
    code = """
from benchmarks.evaluation.hub import full_revision
from benchmarks.evaluation.problems import SetError
from benchmarks.evaluation.sets import SETS
row = SETS["aime_2025"]
print(full_revision(row, None), full_revision(row, "633f5ee"), full_revision(row, "c" * 40))
try:
    full_revision(row, "ccc")
except SetError as error:
    print(error)
"""
    done = python("-c", code, endpoint=hub, home=tmp_path)
    assert done.stdout.splitlines() == [
        f"{COMMITS[0]} {COMMITS[1]} {'c' * 40}",
        "aime_2025: revision must be one commit of math-ai/aime25, got 'ccc' for 0; correct the lock file",
    ], done.stderr


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        (
            "gpqa_diamond",
            "accept not to reveal its examples at https://huggingface.co/datasets/Idavidrein/gpqa, log in with",
        ),
        ("aime_2025", "check the connection"),
    ],
)
def test_without_a_network_one_line_says_what_to_do(name: str, cure: str, tmp_path: Path) -> None:
    arguments = (
        "-m",
        "benchmarks.evaluation",
        "evaluate",
        "--model",
        "m",
        "--sets",
        name,
        "--runs",
        str(tmp_path / "r"),
    )
    done = python(*arguments, endpoint=NOBODY, home=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"error: {name}: ")
    assert cure in line
    assert line.endswith("or pass a copy by --data")
    assert not (tmp_path / "r").exists()


def test_a_gated_set_says_what_to_accept(hub: str, tmp_path: Path) -> None:
    arguments = ("-m", "benchmarks.evaluation", "evaluate", "--model", "m", "--sets", "gpqa_diamond")
    done = python(*arguments, endpoint=hub, home=tmp_path)
    assert done.returncode == 2
    assert "gated" in done.stderr.lower()
    assert "log in with `hf auth login`, or pass a copy by --data" in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error:")]) == 1


def test_pinning_without_a_network_changes_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    before = '{\n "gpqa_diamond": {\n  "revision": "633f5ee",\n  "statements": null\n }\n}\n'
    lock.write_text(before, encoding="utf-8")
    done = python("-m", "benchmarks.evaluation", "sets", "--pin", "--lock", str(lock), endpoint=NOBODY, home=tmp_path)
    assert done.returncode == 2
    assert lock.read_text(encoding="utf-8") == before
    assert len(done.stderr.splitlines()) == 6
    assert all(line.startswith("not pinned: ") for line in done.stderr.splitlines())
    assert "unpinned" in done.stdout
