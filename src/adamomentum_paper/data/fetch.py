"""Downloads that continue where they broke off, and never leave half a file that looks whole.

Everything happens in a folder `.downloads` beside the data. A file moves to its place in one step,
and only once its digest is right.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.client
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from adamomentum_lab.errors import LabError
from adamomentum_lab.files import locked
from adamomentum_paper.data.files import digest_of, hash_like, root
from adamomentum_paper.data.sets import DataSet, Download

BLOCK = 1 << 18
ATTEMPTS = 5  # in a row without a new byte; a connection that brought some may break again
TIMEOUT = 30.0  # seconds of silence
BUSY = (408, 425, 429, 500, 502, 503, 504)  # answers of a server that may answer otherwise later


class _BrokenError(Exception):
    """A connection that may be tried again."""


def fetch(
    dataset: DataSet,
    base: str | None = None,
    on_bytes: Callable[[str, int, int], None] = lambda *_: None,
    say: Callable[[str], None] = lambda _: None,
    pause: float = 1.0,
) -> Path:
    """Get what is missing of a data set; its folder.

    Args:
        dataset: one of `adamomentum_paper.data.sets.known()`.
        base: address of a folder that has the same files, in place of the publisher's.
        on_bytes: hears the name of each file, how many bytes are there, and of how many.
        say: hears of every attempt that failed.
        pause: seconds before the second attempt; each further one waits twice as long.
    """
    folder = root()
    work = folder / ".downloads" / dataset.name
    state, words = dataset.state()
    if state == "complete":
        return Path(words)
    if not dataset.downloads:
        raise LabError(f"{dataset.name} cannot be downloaded: {dataset.source()}")
    with _translate_errors(work), _lock(work, dataset.name):
        # Another process may have ended just now.
        lacking = dataset.downloads if dataset.state()[0] != "complete" else ()
        for download in lacking:
            if not _there(dataset, download, folder):
                archive = _download(download, work, base, on_bytes, say, pause)
                _unpacked(archive, download.into, work / "unpacked", folder)
                archive.unlink()
        shutil.rmtree(work)
        state, words = dataset.state()
    if state != "complete":
        raise LabError(f"{dataset.name} was downloaded, but is {state}: {words}")
    return Path(words)


def _there(dataset: DataSet, download: Download, folder: Path) -> bool:
    """Whether the one file that a download brings is in its place, whole."""
    file = folder / download.into
    return file.is_file() and any(
        download.into == f"{layout.folder}/{name}" and digest_of(file, digest) == digest
        for layout in dataset.layouts
        for name, digest in layout.files.items()
    )


@contextlib.contextmanager
def _translate_errors(work: Path) -> Iterator[None]:
    """Faults of the disk in one sentence."""
    if work.parents[1].exists() and not work.parents[1].is_dir():
        raise LabError(f"{work.parents[1]} is not a folder; ADAMOMENTUM_DATA must name one.")
    try:
        work.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LabError(
                f"the disk of {work.parents[1]} is full; free some space, and the same command "
                "continues."
            ) from error
        raise LabError(f"cannot write to {work} ({error.strerror or error}).") from error


@contextlib.contextmanager
def _lock(work: Path, name: str) -> Iterator[None]:
    with locked(work.parent / f"{name}.lock", f"another process is downloading {name}."):
        work.mkdir(exist_ok=True)  # one that has just ended has removed it
        yield


def _download(
    download: Download,
    work: Path,
    base: str | None,
    on_bytes: Callable[[str, int, int], None],
    say: Callable[[str], None],
    pause: float,
) -> Path:
    """The file, whole and right, from what an earlier call has left of it."""
    name = download.url.rsplit("/", 1)[-1]
    url = f"{base.rstrip('/')}/{name}" if base else download.url
    file = work / name
    fresh = not file.exists()
    failures = most = 0
    while True:
        before = _size(file)
        reason = "it ends early"
        try:
            if before < download.size:
                _more(url, file, before, download.size, lambda n: on_bytes(name, n, download.size))
        except _BrokenError as error:
            reason = str(error)
        now = _size(file)
        if now >= download.size:
            found = digest_of(file, download.digest)
            if now == download.size and found == download.digest:
                return file
            file.unlink()
            if not fresh:  # what was left of an earlier call may have been wrong
                fresh = True
                continue
            kind = hash_like(download.digest)
            wrong = f"its {kind} is {found}, not {download.digest}"
            if now > download.size:
                wrong = f"it has more than {download.size:,} bytes"
            raise LabError(f"{url} is not the file that was published: {wrong}; nothing was kept.")
        failures = 0 if now > max(most, before) else failures + 1
        most = max(most, before, now)
        if failures == ATTEMPTS:
            raise LabError(
                f"{url} cannot be had ({reason}); {now:,} of {download.size:,} bytes are there, "
                "and the same command continues."
            )
        wait = pause * 2 ** max(0, failures - 1)
        say(f"{name}: {reason}; again in {wait:.0f} s")
        time.sleep(wait)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _more(url: str, file: Path, start: int, size: int, on_bytes: Callable[[int], None]) -> None:
    """Append to a file what the server has from `start` on, up to its size and a byte."""
    with _answer(url, start, size) as answer:
        partial = answer.status == 206
        start = start if partial else 0  # servers may send all of it
        with file.open("ab" if partial else "wb") as out:
            while start <= size:
                try:
                    block = answer.read(min(BLOCK, size + 1 - start))
                except (OSError, http.client.HTTPException) as error:
                    raise _BrokenError(_line(error)) from error
                if not block:
                    break
                out.write(block)
                start += len(block)
                on_bytes(start)


def _answer(url: str, start: int, size: int) -> Any:
    """The server's answer, if it is the beginning, or the rest, of a file of this size."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "adamomentum"})
        if start:
            request.add_header("Range", f"bytes={start}-")
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # what is here is as long as what is there
            return _answer(url, 0, size)
        if error.code in BUSY:
            raise _BrokenError(f"{error.code} {error.reason}") from error
        raise LabError(f"{url} answers {error.code} {_line(error.reason)}.") from error
    except (ValueError, http.client.InvalidURL) as error:
        raise LabError(f"{url!r} is no address ({_line(error)}).") from error
    except (OSError, http.client.HTTPException) as error:
        reason = _line(getattr(error, "reason", error))
        if url.startswith("file:"):
            raise LabError(f"{url} cannot be read ({reason}).") from error
        raise _BrokenError(reason) from error
    if answer.status == 206:
        first, _, total = answer.headers.get("Content-Range", "").partition("/")
        if not first.startswith(f"bytes {start}-"):
            answer.close()
            if start:
                return _answer(url, 0, size)
            raise LabError(f"{url} answers with another part than was asked for.")
    else:
        total = answer.headers.get("Content-Length", "")
    if total.isdigit() and int(total) != size:
        answer.close()
        raise LabError(
            f"{url} is not the file that was published: it has {int(total):,} bytes, not {size:,}."
        )
    return answer


def _line(error: object) -> str:
    """The first line of a reason."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _unpacked(archive: Path, into: str, scratch: Path, folder: Path) -> None:
    """Bring what a download holds to its place."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        for name, content in _contents(archive, into):
            file = scratch / _safe(name, archive)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as out:
                shutil.copyfileobj(content, out, BLOCK)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise LabError(f"{archive} cannot be unpacked ({error}).") from error
    os.sync()  # what has its final name must outlive a power cut
    for file in sorted(path for path in scratch.rglob("*") if path.is_file()):
        target = folder / file.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
    shutil.rmtree(scratch)


def _contents(archive: Path, into: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Places below the data folder, and what belongs there."""
    inside = f"{into}/" if into else ""
    if archive.name.endswith((".tar.gz", ".tgz", ".tar")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isdir():
                    continue
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    raise LabError(f"{archive} holds {member.name}, which is no plain file.")
                yield inside + member.name, content
    elif archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                if not entry.is_dir():
                    with packed.open(entry) as content:
                        yield inside + entry.filename, content
    elif archive.suffix == ".gz" and not into.endswith(".gz"):
        with gzip.open(archive) as plain:
            yield into, cast(IO[bytes], plain)
    else:
        with archive.open("rb") as same:
            yield into, same


def _safe(name: str, archive: Path) -> PurePosixPath:
    """A name in an archive may say anything; none may lead out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise LabError(f"{archive} holds {name!r}, which leads out of its folder.")
    return path
