"""Downloads from a server on loopback that breaks connections, lies and serves damaged bytes."""

import errno
import gzip
import hashlib
import http.client
import http.server
import io
import multiprocessing
import os
import random
import re
import shutil
import tarfile
import threading
import time
import zipfile

import pytest

from adamomentum_lab.errors import LabError
from adamomentum_paper.data import fetch as module
from adamomentum_paper.data.fetch import fetch
from adamomentum_paper.data.sets import DataSet, Download, Layout

CONTENT = {"a.bin": random.Random(0).randbytes(500_000), "b.bin": b"second" * 999}


def tar_of(files, links=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return out.getvalue()


def zip_of(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


class Server:
    """Serves `files`; what goes wrong is set before a test."""

    def __init__(self):
        self.files, self.requests = {}, []
        self.breaks_after = None  # bytes of each answer
        self.ranges = True
        self.errors = []  # status codes of the first answers
        self.pause = 0.0  # between small pieces
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, handler):
        start = handler.headers.get("Range")
        self.requests.append(start)
        if self.errors:
            handler.send_error(self.errors.pop(0))
            return
        content = self.files.get(handler.path.lstrip("/"))
        if content is None:
            handler.send_error(404)
            return
        first = int(re.fullmatch(r"bytes=(\d+)-", start)[1]) if start and self.ranges else 0
        if first >= len(content) > 0:
            handler.send_error(416)
            return
        handler.send_response(206 if first else 200)
        if first:
            handler.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - first))
        handler.end_headers()
        body = content[first:][: self.breaks_after]
        step = 20_000 if self.pause else max(len(body), 1)
        try:
            for i in range(0, len(body), step):
                handler.wfile.write(body[i : i + step])
                time.sleep(self.pause)
        except OSError:
            pass  # the other side has gone

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    one = Server()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAMOMENTUM_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def md5(content):
    return hashlib.md5(content).hexdigest()


def dataset(server, name, content, into="", files=CONTENT):
    server.files[name] = content
    return DataSet(
        "set",
        "a set",
        (Layout("set", {file: md5(its) for file, its in files.items()}),),
        "free",
        (Download(f"{server.url}/{name}", md5(content), len(content), into),),
    )


def archived(server):
    return dataset(server, "set.tar.gz", tar_of({f"set/{n}": c for n, c in CONTENT.items()}))


def whole(home, files=CONTENT):
    assert {p.name: p.read_bytes() for p in (home / "set").iterdir()} == files
    assert not [p for p in (home / ".downloads").iterdir() if p.suffix not in {".lock", ".by"}]


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_archives(server, home, kind):
    pack = tar_of if kind == "tar.gz" else zip_of
    files = {f"set/{name}": content for name, content in CONTENT.items()}
    assert fetch(dataset(server, f"set.{kind}", pack(files))) == home / "set"
    whole(home)


@pytest.mark.parametrize("name", ["one.txt", "one.txt.gz"])
def test_single_files_plain_and_compressed(server, home, name):
    content = CONTENT["a.bin"]
    sent = gzip.compress(content) if name.endswith(".gz") else content
    fetch(dataset(server, name, sent, "set/one.txt", {"one.txt": content}))
    whole(home, {"one.txt": content})


def test_what_is_there_is_not_fetched_again(server, home):
    wanted = archived(server)
    fetch(wanted)
    fetch(wanted)
    assert len(server.requests) == 1
    (home / "set" / "b.bin").write_bytes(b"damaged")
    fetch(wanted)
    whole(home)


def test_of_several_files_only_those_that_lack(server, home):
    server.files |= CONTENT
    wanted = DataSet(
        "set",
        "a set",
        (Layout("set", {name: md5(content) for name, content in CONTENT.items()}),),
        "free",
        tuple(
            Download(f"{server.url}/{name}", md5(content), len(content), f"set/{name}")
            for name, content in CONTENT.items()
        ),
    )
    (home / "set").mkdir(parents=True)
    (home / "set" / "a.bin").write_bytes(CONTENT["a.bin"])
    fetch(wanted)
    assert len(server.requests) == 1
    whole(home)


def test_a_broken_connection_is_continued(server, home):
    wanted = archived(server)
    size = len(server.files["set.tar.gz"])
    server.breaks_after = size // 4
    fetch(wanted, pause=0)
    whole(home)
    assert server.requests[0] is None
    assert server.requests[1] == f"bytes={size // 4}-"
    assert len(server.requests) == 5


def test_a_server_without_ranges_sends_all_again(server, home):
    wanted = archived(server)
    server.ranges = False
    server.breaks_after = 100
    with pytest.raises(LabError, match=r"cannot download .*; 100 of .* the same command to resume"):
        fetch(wanted, pause=0)
    server.breaks_after = None
    fetch(wanted, pause=0)
    whole(home)


def test_a_later_call_continues(server, home):
    wanted = archived(server)
    files, server.files = server.files, {}
    with pytest.raises(LabError, match="answers 404"):
        fetch(wanted, pause=0)
    server.files = files
    part = home / ".downloads" / "set" / "set.tar.gz"
    part.write_bytes(files["set.tar.gz"][:1500])
    fetch(wanted, pause=0)
    assert server.requests[-1] == "bytes=1500-"
    whole(home)


def test_an_overloaded_server_is_tried_again(server, home):
    wanted = archived(server)
    server.errors = [503, 500]
    fetch(wanted, pause=0)
    whole(home)
    server.errors = [503] * 99
    shutil.rmtree(home)
    with pytest.raises(LabError, match="503"):
        fetch(wanted, pause=0)


@pytest.mark.parametrize("damage", ["flipped", "shorter", "longer", "another"])
def test_damaged_bytes_are_not_kept(server, home, damage):
    wanted = archived(server)
    content = server.files["set.tar.gz"]
    server.files["set.tar.gz"] = {
        "flipped": content[:500] + bytes([content[500] ^ 1]) + content[501:],
        "shorter": content[:-10],
        "longer": content + b"more",
        "another": b"<html>not found</html>",
    }[damage]
    with pytest.raises(LabError):
        fetch(wanted, pause=0)
    assert not (home / "set").exists()
    server.files["set.tar.gz"] = content
    fetch(wanted, pause=0)
    whole(home)


def test_a_wrong_beginning_is_thrown_away(server, home):
    wanted = archived(server)
    work = home / ".downloads" / "set"
    work.mkdir(parents=True)
    size = len(server.files["set.tar.gz"])
    for beginning in (b"x" * 100, b"x" * size, b"x" * (size + 5)):
        work.mkdir(parents=True, exist_ok=True)
        (work / "set.tar.gz").write_bytes(beginning)
        shutil.rmtree(home / "set", ignore_errors=True)
        fetch(wanted, pause=0)
        whole(home)


@pytest.mark.parametrize(
    "content",
    [
        tar_of({"../outside": b"x"}),
        tar_of({"/tmp/outside": b"x"}),
        tar_of({"set/../../outside": b"x"}),
        tar_of({"set/a.bin": b"x"}, links=[("set/link", "/etc/passwd")]),
    ],
    ids=["above", "absolute", "hidden", "link"],
)
def test_an_archive_cannot_write_elsewhere(server, home, content):
    with pytest.raises(LabError, match=r"leads out of its folder|not a regular file"):
        fetch(dataset(server, "set.tar.gz", content), pause=0)
    assert not (home / "set").exists()
    assert not list(home.parent.rglob("outside"))


def test_a_zip_cannot_write_elsewhere(server, home):
    content = zip_of({"set/a.bin": b"x", "../../outside": b"x"})
    with pytest.raises(LabError, match="leads out of its folder"):
        fetch(dataset(server, "set.zip", content), pause=0)
    assert not (home / "set").exists()


def test_an_archive_that_is_none(server, home):
    for name in ("set.tar.gz", "set.zip", "set.txt.gz"):
        with pytest.raises(LabError, match="cannot be unpacked"):
            fetch(dataset(server, name, b"not an archive at all", "set/x"), pause=0)
    assert not (home / "set").exists()


def test_a_full_disk(server, home, monkeypatch):
    wanted = archived(server)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "copyfileobj", full)
        with pytest.raises(LabError, match=f"the disk of {re.escape(str(home))} is full"):
            fetch(wanted, pause=0)
    assert not (home / "set").exists()
    fetch(wanted, pause=0)
    whole(home)
    assert len(server.requests) == 1  # the archive was there


def test_a_root_that_is_a_file(server, home):
    home.write_text("")
    with pytest.raises(LabError, match="is not a folder; ADAMOMENTUM_DATA must name one"):
        fetch(archived(server))


def test_what_cannot_succeed_is_not_tried_again(server, home, tmp_path):
    wanted = archived(server)
    for base, sentence in (
        ((tmp_path / "empty").as_uri(), "cannot be read"),
        ("http://127.0.0.1:port", "is not a URL"),
        ("http://a b", "is not a URL"),
        (f"{server.url}/nowhere", "answers 404"),
    ):
        with pytest.raises(LabError, match=sentence) as told:
            fetch(wanted, base, pause=60)
        assert "\n" not in str(told.value)
    server.files["set.tar.gz"] = b"<html>please log in</html>"
    with pytest.raises(LabError, match=r"it has 26 bytes, not \d"):
        fetch(wanted, pause=60)
    assert not list((home / ".downloads" / "set").iterdir())


def test_a_server_that_refuses_every_range(server, home):
    wanted = archived(server)
    server.errors = [416] * 99
    with pytest.raises(LabError, match="answers 416"):
        fetch(wanted, pause=0)
    assert len(server.requests) == 1


def test_what_is_whole_need_not_be_fetched(home):
    by_hand = DataSet("set", "", (Layout("set", {"a": md5(b"x")}),), "", by_hand="ask for it")
    with pytest.raises(LabError, match="cannot be downloaded: ask for it"):
        fetch(by_hand)
    (home / "set").mkdir(parents=True)
    (home / "set" / "a").write_bytes(b"x")
    assert fetch(by_hand) == home / "set"


def test_a_network_that_fails_is_not_taken_for_the_disk(server, home, monkeypatch):
    wanted, heard = archived(server), []
    read = http.client.HTTPResponse.read

    def once(self, *args):
        if not heard:
            heard.append("")
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        return read(self, *args)

    monkeypatch.setattr(http.client.HTTPResponse, "read", once)
    fetch(wanted, say=heard.append, pause=0)
    assert heard[1:] == ["set.tar.gz: [Errno 113] No route to host; trying again in 0 s"]
    whole(home)


def test_another_place_has_the_files(server, home, tmp_path):
    wanted = archived(server)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "set.tar.gz").write_bytes(server.files.pop("set.tar.gz"))
    fetch(wanted, (tmp_path / "mirror").as_uri())
    whole(home)
    assert not server.requests


# Its children start in milliseconds, and not with the threads of this process.
FORKSERVER = multiprocessing.get_context("forkserver")


def fetch_into(folder, wanted):
    os.environ["ADAMOMENTUM_DATA"] = str(folder)  # the server may be older than the test
    fetch(wanted, pause=0)


@pytest.mark.slow
def test_killed_at_any_time_it_leaves_nothing_that_looks_whole(server, home):
    wanted = archived(server)
    server.pause = 0.01
    FORKSERVER.set_forkserver_preload([__name__])
    kills = 0
    for _ in range(40):
        process = FORKSERVER.Process(target=fetch_into, args=(home, wanted))
        before = len(server.requests)
        process.start()
        while len(server.requests) == before and process.is_alive():
            time.sleep(0.005)
        time.sleep(0.004 * (kills % 5))
        if process.is_alive():
            process.kill()
            kills += 1
        process.join()
        if process.exitcode == 0:
            break
        for path in (home / "set").glob("*"):
            assert path.read_bytes() == CONTENT[path.name]
    else:
        server.pause = 0.0
        fetch(wanted, pause=0)
    assert kills
    whole(home)


def test_two_at_once(server, home):
    wanted = archived(server)
    server.pause = 0.05
    first = threading.Thread(target=fetch, args=(wanted,))
    first.start()
    while not server.requests:
        time.sleep(0.01)
    with pytest.raises(LabError, match=r"another process is downloading set"):
        fetch(wanted)
    first.join()
    whole(home)
