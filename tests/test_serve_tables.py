"""Tables: upload, preview, run, stop, download; the file is that of the command which is shown."""

import json
import math
import shlex
import socket
import time
from datetime import date
from io import BytesIO
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from linda.cli import main
from linda.middles.ngrams import TrigramModel
from linda.web.interpolation import ScoredInterpolator
from linda.web.limits import Limits
from serving import Serving, serving

CSV = """text,label,id
The room was clean and the bed was soft.,good,1
We were tired and the room was loud.,bad,2
The staff helped us with everything.,good,3
Nobody answered when we called the desk.,bad,4
Breakfast was fresh and there was plenty of it.,good,5
The food was cold and the coffee was weak.,bad,6
"""


def started(server: Serving, name: str, body: bytes | str, **settings: object) -> dict:
    table = server.upload(name, body)
    assert table.status_code == 200, table.text
    answer = server.client.post(f"/v1/tables/{table.json()['id']}/jobs", json=settings)
    assert answer.status_code == 202, answer.text
    return answer.json()


def test_an_upload_is_described(server: Serving) -> None:
    table = server.upload("reviews.csv", CSV).json()
    assert table["name"] == "reviews.csv"
    assert table["format"] == "csv"
    assert table["columns"] == ["text", "label", "id"]
    assert table["rows"] == 6
    assert len(table["first_rows"]) == 5
    assert table["first_rows"][1] == {"text": "We were tired and the room was loud.", "label": "bad", "id": 2}


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        (
            "reviews.csv",
            "text,label\nonly one column\n",
            "reviews.csv, line 2 (row 0): wrong number of columns (found 1, expected 2)",
        ),
        ("reviews.csv", "text,label\n", "reviews.csv has no rows"),
        ("reviews.csv", b"text,label\n\xff,x\n", "reviews.csv, line 2: not UTF-8"),
        ("reviews.jsonl", "{", "reviews.jsonl, line 1 (row 0): not valid JSON"),
        ("reviews.parquet", "PAR1", "reviews.parquet is damaged, or not a Parquet file"),
        ("reviews.doc", "x", "reviews.doc: unknown file format"),
        ("reviews.csv.gz", b"\x1f\x8b", "reviews.csv.gz is compressed; unpack it first"),
    ],
)
def test_a_bad_upload_is_422(server: Serving, name: str, body: bytes | str, words: str) -> None:
    answer = server.upload(name, body)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(words)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\xff", "b'\\xff'"),
        ({"raw": b"\xff"}, {"raw": "b'\\xff'"}),
        (math.nan, None),
        (date(2026, 11, 18), "2026-11-18"),
    ],
)
def test_what_json_cannot_hold_is_shown_as_python_writes_it(server: Serving, value: object, shown: object) -> None:
    file = BytesIO()
    pq.write_table(pa.table({"text": ["a b", "c d"], "label": ["x", "x"], "more": [value, value]}), file)
    answer = server.upload("reviews.parquet", file.getvalue())
    assert answer.status_code == 200, answer.text
    assert answer.json()["first_rows"][0] == {"text": "a b", "label": "x", "more": shown}


def test_a_lone_surrogate_in_a_table_is_shown(server: Serving) -> None:
    answer = server.upload("reviews.jsonl", '{"text": "a b", "label": "x", "more": "\\ud800"}\n' * 2)
    assert answer.status_code == 200, answer.text
    assert answer.json()["first_rows"][0]["more"] == "'\\ud800'"


def as_jsonl(table: str) -> str:
    head, *rows = (line.split(",") for line in table.splitlines())
    return "".join(json.dumps(dict(zip(head, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("reviews.csv", {}),
        ("reviews.csv", {"partners": "any", "per_row": 2, "seed": 3, "labels": "sharpened", "output_format": "jsonl"}),
        ("my reviews.jsonl", {"method": "eda", "only_new": True, "gates": {"copies": False}}),
        ("reviews.csv", {"method": "splice", "partners": "any", "ratio": "0.3-0.7", "raw_ratio": True}),
        (
            "-reviews.tsv",
            {"total": 4, "raw_ratio": True, "weight": 0.5, "gates": {"copies": False, "duplicates": False}},
        ),
        (
            "reviews.csv",
            {"partners": "different", "labels": "hard", "ratio": "0.2-0.8", "output_format": "parquet"},
        ),
    ],
)
def test_the_download_is_the_file_of_the_command(
    server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: dict
) -> None:
    body = {"csv": CSV, "jsonl": as_jsonl(CSV), "tsv": CSV.replace(",", "\t")}[name.rsplit(".", 1)[1]]
    job = server.finished(started(server, name, body, **settings)["id"])
    assert job["state"] == "done", job["error"]
    assert job["result"]["made"] > 0
    assert job["done"] == job["total"] == job["result"]["planned"]
    answer = server.client.get(f"/v1/jobs/{job['id']}/file")
    assert answer.status_code == 200

    monkeypatch.chdir(tmp_path)
    Path(name).write_text(body)
    program, *arguments = shlex.split(job["command"])
    assert program == "linda"
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 0, ran.stderr
    assert answer.content == Path(job["file"]).read_bytes()
    if settings.get("output_format") == "parquet":
        assert pq.read_table(job["file"]).num_rows == 6 + job["result"]["made"]


def test_crossovers_need_a_table_of_the_server(
    server: Serving, scored_interpolator: ScoredInterpolator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choices(running: Serving) -> list[str]:
        settings = running.client.get("/v1/info").json()["augment_settings"]
        return next(setting["choices"] for setting in settings if setting["name"] == "method")

    assert choices(server) == ["linda", "eda", "splice"]
    table = server.upload("reviews.csv", CSV).json()["id"]
    refused = server.client.post(f"/v1/tables/{table}/jobs", json={"method": "crossover"})
    assert refused.status_code == 422
    assert "start the server with --trigrams TABLE" in refused.json()["error"]

    monkeypatch.chdir(tmp_path)
    TrigramModel.build(CSV.splitlines(), min_word_count=1, min_trigram_count=1).save("trigrams.safetensors")
    Path("reviews.csv").write_text(CSV)
    with serving(scored_interpolator, trigrams="trigrams.safetensors") as running:
        assert choices(running) == ["linda", "eda", "splice", "crossover"]
        job = running.finished(started(running, "reviews.csv", CSV, method="crossover", ratio="0.5")["id"])
        assert job["state"] == "done", job["error"]
        content = running.client.get(f"/v1/jobs/{job['id']}/file").content
    assert CliRunner().invoke(main, shlex.split(job["command"])[1:]).exit_code == 0
    assert Path(job["file"]).read_bytes() == content


def test_a_preview_shows_the_first_rows_of_the_run(server: Serving) -> None:
    kinds = [("room", "small", "bad"), ("garden", "lovely", "good"), ("pool", "cold", "bad"), ("bar", "lively", "good")]
    table = "text,label\n" + "".join(
        f"Guest {number} found the {noun} very {kind}.,{label}\n"
        for number, (noun, kind, label) in enumerate(kinds * 8)
    )
    settings = {"partners": "any", "seed": 1, "only_new": True, "output_format": "jsonl"}
    upload = server.upload("guests.csv", table).json()["id"]
    preview_id = server.client.post(f"/v1/tables/{upload}/jobs", json={**settings, "preview": True}).json()["id"]
    preview = server.finished(preview_id)
    assert preview["state"] == "done", preview["error"]
    result = preview["result"]
    assert preview["file"] is None
    assert result["planned"] == 20
    assert result["planned_in_all"] == 32
    assert result["label_names"] == ["bad", "good"]
    assert set(result["gates"]) == {"copies", "duplicates", "runaway", "drift"}
    run = server.finished(server.client.post(f"/v1/tables/{upload}/jobs", json=settings).json()["id"])
    made = [json.loads(line) for line in server.client.get(f"/v1/jobs/{run['id']}/file").text.splitlines()]
    originals = [line.rsplit(",", 1) for line in table.splitlines()[1:]]
    for shown, row in zip(result["rows"], made, strict=False):
        assert shown["texts"] == [row["text"]]
        assert "".join(piece for piece, _ in shown["words"][0]) == row["text"]
        assert shown["label_probs"] == row["label_probs"]
        assert shown["alpha"] == row["alpha"]
        for parent, number in zip(shown["parents"], (row["parent_a"], row["parent_b"]), strict=True):
            assert [*parent["texts"], parent["label"]] == originals[number]


def test_a_preview_of_pairs(server: Serving) -> None:
    table = as_jsonl(
        "premise,hypothesis,label\nIt rains.,It is wet.,yes\n"
        "The sun is out.,It is dark.,yes\nA dog barks.,A pet is loud.,yes\n"
    )
    settings = {"text": "premise", "pair": "hypothesis", "preview": True}
    job = server.finished(started(server, "pairs.jsonl", table, **settings)["id"])
    assert job["state"] == "done", job["error"]
    assert all(len(row["texts"]) == len(row["words"]) == 2 for row in job["result"]["rows"])
    assert job["done"] == job["total"] == 3


def test_a_run_that_fails_says_what_the_command_says(
    server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = server.finished(started(server, "reviews.csv", CSV, text="review")["id"])
    assert job["state"] == "failed"
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text(CSV)
    ran = CliRunner().invoke(main, shlex.split(job["command"])[1:])
    assert ran.stderr == f"linda: {job['error']}\n"
    assert server.client.get(f"/v1/jobs/{job['id']}/file").status_code == 404


def test_a_wrong_setting_is_told_at_once(server: Serving) -> None:
    table = server.upload("reviews.csv", CSV).json()["id"]
    answer = server.client.post(f"/v1/tables/{table}/jobs", json={"retries": -1})
    assert answer.status_code == 422
    assert answer.json()["error"] == "retries is -1; it must be a whole number from 0 to 1,000"
    assert server.client.post("/v1/tables/unknown/jobs", json={}).status_code == 404


def test_a_run_can_be_stopped(server: Serving) -> None:
    rows = "".join(f"Text number {number} of a long table about things.,x\n" for number in range(3000))
    job = started(server, "long.csv", f"text,label\n{rows}")
    server.client.delete(f"/v1/jobs/{job['id']}")
    stopped = server.finished(job["id"])
    assert stopped["state"] == "stopped"
    assert stopped["done"] < 3000
    assert server.client.get(f"/v1/jobs/{job['id']}/file").status_code == 404


def test_tables_and_jobs_are_bounded(scored_interpolator: ScoredInterpolator) -> None:
    rows = "".join(f"Text number {number} of a long table about things.,x\n" for number in range(2000))
    with serving(scored_interpolator, limits=Limits(tables=2, waiting_jobs=1, table_rows=2000)) as small:
        old = small.upload("a.csv", CSV).json()["id"]
        busy = started(small, "long.csv", f"text,label\n{rows}")
        newest = small.upload("b.csv", CSV).json()["id"]  # takes the place of the first
        assert small.client.post(f"/v1/tables/{old}/jobs", json={}).status_code == 404
        refused = small.client.post(f"/v1/tables/{newest}/jobs", json={})
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        small.client.delete(f"/v1/jobs/{busy['id']}")
        small.finished(busy["id"])
        assert small.client.post(f"/v1/tables/{newest}/jobs", json={"method": "eda"}).status_code == 202
        answer = small.upload("c.csv", f"text,label\n{rows}one more,x\n")
        assert answer.status_code == 422
        assert "more than 2,000 rows" in answer.json()["error"]


def test_uploads_in_progress_are_bounded(scored_interpolator: ScoredInterpolator) -> None:
    with serving(scored_interpolator, limits=Limits(tables=2)) as small:
        host, port = small.address.removeprefix("http://").split(":")
        head = f"POST /v1/tables?name=a.csv HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(CSV)}\r\n"
        with socket.create_connection((host, int(port))) as one, socket.create_connection((host, int(port))) as other:
            for connection in (one, other):
                connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")  # the server has begun to read the body
                connection.sendall(CSV[:20].encode())
            refused = small.upload("b.csv", CSV)
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) >= 1
            one.sendall(CSV[20:].encode())
            assert b" 200 " in one.recv(4096).splitlines()[0]
            assert small.upload("b.csv", CSV).status_code == 200  # takes the place of the first
        answer_when(small, 200)  # the other one has left


def answer_when(server: Serving, status: int) -> httpx.Response:
    """The answer to an upload, when the server has noticed what others do."""
    for _ in range(200):
        answer = server.upload("b.csv", CSV)
        if answer.status_code == status:
            return answer
        time.sleep(0.05)
    raise TimeoutError(answer.text)
