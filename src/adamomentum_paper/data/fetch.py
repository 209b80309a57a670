"""Downloads that can be resumed.

Files are downloaded to a folder `.downloads` in the data folder. A file moves to its place in one
step, once its digest is right, so no file there is ever incomplete.
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
ATTEMPTS = 5  # in a row without a new byte
TIMEOUT = 30.0  # seconds without a byte
BUSY = (408, 425, 429, 500, 502, 503, 504)  # status codes of a server that may recover


class _BrokenError(Exception):
    """The connection failed; another attempt may succeed."""


def fetch(
    dataset: DataSet,
    base: str | None = None,
    on_bytes: Callable[[str, int, int], None] = lambda *_: None,
    say: Callable[[str], None] = lambda _: None,
    pause: float = 1.0,
) -> Path:
    """Download the missing files of a data set, and return its folder.

    Args:
        dataset: one of `adamomentum_paper.data.sets.known()`.
        base: URL of a folder with the same files, to use instead of the publisher's.
        on_bytes: called with the name of a file, the bytes so far, and its size.
        say: called with a line for every failed attempt.
        pause: seconds before the second attempt. The pause doubles with each further one.
    """
    folder = root()
    work = folder / ".downloads" / dataset.name
    state, words = dataset.state()
    if state == "complete":
        return Path(words)
    if not dataset.downloads:
        raise LabError(f"{dataset.name} cannot be downloaded: {dataset.source()}")
    with _translate_errors(work), _lock(work, dataset.name):
        # Another process may have completed the download in the meantime.
        lacking = dataset.downloads if dataset.state()[0] != "complete" else ()
        for download in lacking:
            if not _is_in_place(dataset, download, folder):
                archive = _download(download, work, base, on_bytes, say, pause)
                _unpack(archive, download.into, work / "unpacked", folder)
                archive.unlink()
        shutil.rmtree(work)
        state, words = dataset.state()
    if state != "complete":
        raise LabError(f"{dataset.name} was downloaded, but is {state}: {words}")
    return Path(words)


def _is_in_place(dataset: DataSet, download: Download, folder: Path) -> bool:
    """Whether the file of a single-file download is in its place and complete."""
    file = folder / download.into
    return file.is_file() and any(
        download.into == f"{layout.folder}/{name}" and digest_of(file, digest) == digest
        for layout in dataset.layouts
        for name, digest in layout.files.items()
    )


@contextlib.contextmanager
def _translate_errors(work: Path) -> Iterator[None]:
    """Raise errors of the disk as a LabError."""
    if work.parents[1].exists() and not work.parents[1].is_dir():
        raise LabError(f"{work.parents[1]} is not a folder; ADAMOMENTUM_DATA must name one.")
    try:
        work.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LabError(
                f"the disk of {work.parents[1]} is full; free some space and run the same command "
                "to resume."
            ) from error
        raise LabError(f"cannot write to {work} ({error.strerror or error}).") from error


@contextlib.contextmanager
def _lock(work: Path, name: str) -> Iterator[None]:
    with locked(work.parent / f"{name}.lock", f"another process is downloading {name}."):
        work.mkdir(exist_ok=True)  # another process may have removed it when it ended
        yield


def _download(
    download: Download,
    work: Path,
    base: str | None,
    on_bytes: Callable[[str, int, int], None],
    say: Callable[[str], None],
    pause: float,
) -> Path:
    """Download a file, and check it. An incomplete file of an earlier call is completed."""
    name = download.url.rsplit("/", 1)[-1]
    url = f"{base.rstrip('/')}/{name}" if base else download.url
    file = work / name
    fresh = not file.exists()
    failures = most = 0
    while True:
        before = _size(file)
        reason = "the answer ended early"
        try:
            if before < download.size:
                _append(
                    url, file, before, download.size, lambda n: on_bytes(name, n, download.size)
                )
        except _BrokenError as error:
            reason = str(error)
        now = _size(file)
        if now >= download.size:
            found = digest_of(file, download.digest)
            if now == download.size and found == download.digest:
                return file
            file.unlink()
            if not fresh:  # the part from an earlier call may have been wrong
                fresh = True
                continue
            kind = hash_like(download.digest)
            wrong = f"its {kind} is {found}, not {download.digest}"
            if now > download.size:
                wrong = f"it has more than {download.size:,} bytes"
            raise LabError(f"{url} is not the published file: {wrong}; it was deleted.")
        failures = 0 if now > max(most, before) else failures + 1
        most = max(most, before, now)
        if failures == ATTEMPTS:
            raise LabError(
                f"cannot download {url} ({reason}); {now:,} of {download.size:,} bytes are here. "
                "Run the same command to resume."
            )
        wait = pause * 2 ** max(0, failures - 1)
        say(f"{name}: {reason}; trying again in {wait:.0f} s")
        time.sleep(wait)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _append(url: str, file: Path, start: int, size: int, on_bytes: Callable[[int], None]) -> None:
    """Append to a file the server's bytes from `start` on, up to one more than its size."""
    with _answer(url, start, size) as answer:
        partial = answer.status == 206
        start = start if partial else 0  # servers may send the whole file
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
    """Request a file of this size, or its rest from `start` on."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "adamomentum"})
        if start:
            request.add_header("Range", f"bytes={start}-")
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # the server's file is no longer than ours
            return _answer(url, 0, size)
        if error.code in BUSY:
            raise _BrokenError(f"{error.code} {error.reason}") from error
        raise LabError(f"{url} answers {error.code} {_line(error.reason)}.") from error
    except (ValueError, http.client.InvalidURL) as error:
        raise LabError(f"{url!r} is not a URL ({_line(error)}).") from error
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
            raise LabError(f"{url} answers with another part than requested.")
    else:
        total = answer.headers.get("Content-Length", "")
    if total.isdigit() and int(total) != size:
        answer.close()
        raise LabError(
            f"{url} is not the published file: it has {int(total):,} bytes, not {size:,}."
        )
    return answer


def _line(error: object) -> str:
    """Return the first line of a reason."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _unpack(archive: Path, into: str, scratch: Path, folder: Path) -> None:
    """Unpack a download, then move its files to their places."""
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
    os.sync()  # files with their final name must survive a power cut
    for file in sorted(path for path in scratch.rglob("*") if path.is_file()):
        target = folder / file.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
    shutil.rmtree(scratch)


def _contents(archive: Path, into: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield each path below the data folder, with its content."""
    inside = f"{into}/" if into else ""
    if archive.name.endswith((".tar.gz", ".tgz", ".tar")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isdir():
                    continue
                content = tar.extractfile(member) if member.isreg() else None
                if content is None:
                    raise LabError(f"{archive} holds {member.name}, which is not a regular file.")
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
    """Return a name from an archive as a path. A LabError if it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise LabError(f"{archive} holds {name!r}, which leads out of its folder.")
    return path
