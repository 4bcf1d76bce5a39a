"""Downloads from a real server on this machine: whole and checked, or nothing put in place."""

import hashlib
import io
import random
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from t5x_like.text.benchmarks import catalogue, downloads
from t5x_like.text.benchmarks.downloads import fetch, fetch_one
from t5x_like.text.benchmarks.source import Download


def zipped(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


class Server:
    """Serves one content under any name; can end early, and records the requested ranges."""

    def __init__(self, content: bytes) -> None:
        self.content, self.ends_after, self.ranges = content, len(content), []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requested = self.headers.get("Range")
                server.ranges.append(requested)
                start = int(requested.removeprefix("bytes=").rstrip("-")) if requested else 0
                if "gone" in self.path:
                    self.send_error(404)
                    return
                self.send_response(206 if requested else 200)
                self.send_header("Content-Length", str(len(server.content) - start))
                self.end_headers()
                self.wfile.write(server.content[start : server.ends_after])

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server(
        zipped({"RTE/train.tsv": "rows", "RTE/dev.tsv": "more", "__MACOSX/RTE/x": "", "RTE/.DS": ""})
    )
    yield served
    served.close()


def rte(server: Server, **changes: object) -> Download:
    download = Download(
        url=f"{server.url}/RTE.zip", unpack={"": "glue/"}, sha256=hashlib.sha256(server.content).hexdigest()
    )
    return replace(download, **changes)  # pyright: ignore[reportArgumentType]


def files_below(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_archives_are_unpacked_to_where_they_are_looked_for(server: Server, tmp_path: Path) -> None:
    fetch_one(rte(server), tmp_path)
    assert files_below(tmp_path) == {"glue/RTE/dev.tsv": "more", "glue/RTE/train.tsv": "rows"}
    assert {path.name for path in tmp_path.iterdir()} == {"glue"}


def test_chosen_members_and_plain_files_go_where_it_says(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch_one(rte(server, unpack={"RTE/dev.tsv": "glue/RTE/validation.tsv"}), tmp_path)
    server.content = b"plain"
    server.ends_after = 5
    fetch_one(rte(server, url=f"{server.url}/a.tsv", unpack={"": "glue/AX/AX.tsv"}, sha256=None), tmp_path)
    assert files_below(tmp_path) == {"glue/AX/AX.tsv": "plain", "glue/RTE/validation.tsv": "more"}
    assert "no checksum is published; its SHA-256 is" in capsys.readouterr().out


def test_a_download_cut_short_continues_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.content = zipped({"RTE/train.tsv": "".join(map(str, range(40_000))), "RTE/dev.tsv": "more"})
    server.ends_after = 2**16 + 40  # a whole chunk and a part of one
    with pytest.raises(
        ValueError, match=r"IncompleteRead\(65576 bytes read, .* once more continues after 65,536 bytes"
    ):
        fetch_one(rte(server), tmp_path)
    assert not (tmp_path / "glue").exists()
    server.ends_after = len(server.content)
    fetch_one(rte(server), tmp_path)
    assert server.ranges == [None, "bytes=65536-"]
    assert "glue/RTE/train.tsv" in files_below(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "nothing was put in place. Try again"),
        ({"unpack": {"RTE/test.tsv": "glue/RTE/test.tsv"}}, "holds none of the files RTE/test.tsv"),
        ({"unpack": {"RTE/dev.tsv": "../outside.tsv"}}, "is outside the data folder"),
    ],
)
def test_what_is_not_what_was_published_is_not_put_in_place(
    server: Server, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fetch_one(rte(server, **changes), tmp_path / "data")
    assert files_below(tmp_path) == {}


def test_pages_of_errors_and_refused_connections_are_reported(server: Server, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"gone\.zip could not be fetched \(Not Found\); nothing was put in place"
    ):
        fetch_one(rte(server, url=f"{server.url}/gone.zip"), tmp_path)
    with pytest.raises(ValueError, match=r"could not be fetched .*refused.*; nothing was put in place"):
        fetch_one(rte(server, url="http://127.0.0.1:1/RTE.zip"), tmp_path)
    assert not list(tmp_path.iterdir())
    server.content, server.ends_after = b"<html>", 6
    with pytest.raises(ValueError, match="is not the archive that it should be"):
        fetch_one(rte(server, sha256=None), tmp_path)
    assert files_below(tmp_path) == {}


def test_only_what_is_missing_is_fetched(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / "glue" / "RTE").mkdir(parents=True, exist_ok=True)
        (tmp_path / "glue" / "RTE" / f"{split}.tsv").write_text("rows")
    assert fetch(["glue_rte_v002"], str(tmp_path)) == 0
    with pytest.raises(ValueError, match="into a local folder, not gs://bucket"):
        fetch(["glue_rte_v002"], "gs://bucket")


def test_a_download_that_fails_keeps_no_other_from_being_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = catalogue.benchmark("glue_rte_v002")
    downloads = (rte(server, url=f"{server.url}/gone.zip"), rte(server))
    moved = replace(known, source=replace(known.source, downloads=downloads))
    monkeypatch.setattr(catalogue, "benchmark", lambda _: moved)
    with pytest.raises(ValueError, match=r"1 of 2 downloads failed:\n.*gone\.zip.*\nFetch them elsewhere"):
        fetch(["glue_rte_v002"], str(tmp_path))
    assert files_below(tmp_path) == {"glue/RTE/train.tsv": "rows", "glue/RTE/dev.tsv": "more"}


def test_every_official_file_has_a_checksum() -> None:
    for benchmark in [*catalogue.family("glue"), *catalogue.family("super_glue"), *catalogue.family("dpr")]:
        assert benchmark.source.downloads
        assert all(len(each.sha256 or "") == 64 and each.num_bytes for each in benchmark.source.downloads)


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_an_archive_that_is_damaged_is_reported_and_nothing_is_put_in_place(
    server: Server, tmp_path: Path, ending: str
) -> None:
    packed = io.BytesIO()
    if ending == "zip":
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("RTE/dev.tsv", "".join(map(str, range(9999))))
    else:
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("RTE/dev.tsv")
            member.size = 9999
            archive.addfile(member, io.BytesIO(random.Random(0).randbytes(9999)))
    content = packed.getvalue()
    server.content = content[:200] + bytes(byte ^ 255 for byte in content[200:240]) + content[240:]
    server.ends_after = len(content)
    with pytest.raises(ValueError, match="is not the archive that it should be"):
        fetch_one(rte(server, url=f"{server.url}/RTE.{ending}", sha256=None), tmp_path)
    assert not files_below(tmp_path)


def test_files_that_are_there_stay_as_they_are(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "glue/RTE").mkdir(parents=True)
    (tmp_path / "glue/RTE/dev.tsv").write_text("my own")
    fetch_one(rte(server), tmp_path)
    assert files_below(tmp_path) == {"glue/RTE/dev.tsv": "my own", "glue/RTE/train.tsv": "rows"}
    assert "glue/RTE/dev.tsv is there already, and stays as it is" in capsys.readouterr().out


def test_what_cannot_be_put_in_place_is_kept_and_need_not_be_fetched_again(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "glue").write_text("a file where a folder should be")
    download = rte(server, num_bytes=len(server.content))
    with pytest.raises(ValueError, match=r"was fetched, but could not be put into .*it is kept as .*\.part"):
        fetch_one(download, tmp_path)
    (tmp_path / "glue").unlink()
    fetch_one(download, tmp_path)
    assert files_below(tmp_path) == {"glue/RTE/dev.tsv": "more", "glue/RTE/train.tsv": "rows"}
    assert server.ranges == [None]


def test_an_archive_that_fills_the_disk_is_refused(server: Server, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(downloads, "_LEAST_UNPACKED_BYTES", 2**16)
    server.content = zipped({"RTE/train.tsv": "0" * 2**24})  # packed to a thousandth
    server.ends_after = len(server.content)
    with pytest.raises(ValueError, match="unpacks to more than 100 times its size; nothing was put in place"):
        fetch_one(rte(server), tmp_path)
    assert files_below(tmp_path) == {}
