"""The routes: interpolation and augmentation for programs, tables, jobs and benchmark results for the page."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from linda import __version__
from linda.interpolation.rows import PairRow
from linda.measures import share_of_first
from linda.web.batcher import Batcher, Candidates
from linda.web.bench_results import read_results, results_of_upload
from linda.web.interpolation import checked_rows, checked_settings
from linda.web.jobs import TableJob, Workspace
from linda.web.limits import Limits
from linda.web.origins import word_origins
from linda.web.schemas import Augment, AugmentSettings, BenchCells, GateSwitches, Interpolate, RunTable

T = TypeVar("T")

CLIENT_CLOSED = 499  # never sent: the client has closed the connection


@dataclass
class Services:
    """The objects that the routes use."""

    batcher: Batcher
    workspace: Workspace
    limits: Limits
    given: dict[str, str | None]  # model, engine and trigrams as on the command line; None: the default
    engine: str  # the engine that runs the model
    bench: list[Path]


def make_router(services: Services) -> APIRouter:
    router = APIRouter(prefix="/v1")
    limits = services.limits

    @router.get("/info", summary="Model, engine, limits and the settings of /v1/augment")
    async def info() -> dict[str, Any]:
        return {
            "version": __version__,
            "model": services.given["model"],
            "engine": services.engine,
            "given": {name: services.given[name] for name in ("model", "engine")},
            "limits": asdict(limits),
            "augment_settings": _form(AugmentSettings, {"crossover"} if services.given["trigrams"] is None else set()),
            "gates": _form(GateSwitches, set()),
        }

    @router.post("/interpolate", summary="The text between two texts")
    async def interpolate(asked: Interpolate, request: Request) -> Response:
        rows = checked_rows(*asked.pairs(limits), asked.seed)
        settings = checked_settings(**asked.decoding())
        results = services.batcher.submit(rows, settings)
        if asked.stream:
            return StreamingResponse(_events(rows, results, asked), media_type="text/event-stream")

        async def answer() -> Response:
            found = {index: _result(rows[index], texts, asked) async for index, texts in results}
            return JSONResponse({"results": [found[index] for index in range(len(rows))], "engine": services.engine})

        return await _unless_disconnected(request, answer())

    @router.post("/augment", summary="More rows of a small labelled table")
    async def augment(asked: Augment, request: Request) -> Response:
        async def answer() -> Response:
            rows = await services.workspace.augment(asked.checked_data(limits), asked.values())
            return JSONResponse({"rows": rows})

        return await _unless_disconnected(request, answer())

    @router.post("/tables", summary="Upload a table: the file as the body, its name as `name`")
    async def upload(name: str, request: Request) -> dict[str, Any]:
        id_, table = await services.workspace.add_table(name, request.stream())
        return {
            "id": id_,
            "name": table.name,
            "format": table.file_format,
            "columns": table.columns,
            "rows": table.rows,
            "first_rows": table.first_rows,
        }

    @router.post("/tables/{table_id}/jobs", summary="Preview new rows of a table, or make all of them", status_code=202)
    async def start(table_id: str, asked: RunTable) -> dict[str, Any]:
        table = services.workspace.table(table_id)
        if table is None:
            raise HTTPException(404, "this table is no longer on the server; upload it again")
        return services.workspace.start(table, asked).values()

    @router.get("/jobs/{job_id}", summary="Progress of a job")
    async def status(job_id: str) -> dict[str, Any]:
        return _found(services.workspace.job(job_id)).values()

    @router.delete("/jobs/{job_id}", summary="Stop a job")
    async def stop(job_id: str) -> dict[str, Any]:
        job = _found(services.workspace.job(job_id))
        job.progress.stop()
        return job.values()

    @router.get("/jobs/{job_id}/file", summary="Download the output of a job")
    async def download(job_id: str) -> FileResponse:
        job = _found(services.workspace.job(job_id))
        if job.state != "done" or job.is_preview:
            raise HTTPException(404, f"there is no file: the job is {job.state}")
        disposition = f"attachment; filename*=UTF-8''{quote(job.output_name)}"
        return FileResponse(job.file, media_type=job.mime_type, headers={"Content-Disposition": disposition})

    @router.get("/bench", summary="The folders that the server was started with (--bench)")
    async def bench_folders() -> dict[str, Any]:
        return {"folders": [folder.name for folder in services.bench]}

    @router.get("/bench/{number}", summary="Results in one of these folders, complete or not")
    async def bench_results(number: int) -> dict[str, Any]:
        if not 0 <= number < len(services.bench):
            raise HTTPException(404, f"there is no folder {number}; start the server with --bench FOLDER")
        return await asyncio.to_thread(read_results, services.bench[number])

    @router.post("/bench", summary="Results of uploaded cells: the JSON files in `cells/` of a folder")
    async def bench_of_cells(asked: BenchCells) -> dict[str, Any]:
        return await asyncio.to_thread(results_of_upload, asked.cells)

    return router


def _form(model: Any, left_out: set[str]) -> list[dict[str, Any]]:
    """List name, default, help and choices of every setting, for the form of the page. left_out: choices to hide."""
    schema = model.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "default": None if name == "gates" else field.default,
            "help": field.description,
            "choices": [choice for choice in schema[name].get("enum", ()) if choice not in left_out] or None,
        }
        for name, field in model.model_fields.items()
    ]


def _found(job: TableJob | None) -> TableJob:
    if job is None:
        raise HTTPException(404, "this job is no longer on the server; start it again")
    return job


def _result(row: PairRow, candidates: Candidates, asked: Interpolate) -> dict[str, Any]:
    a, b, alpha, _ = row
    texts = [text for text, _ in candidates]
    result: dict[str, Any] = {"alpha": alpha, "texts": texts}
    if asked.scores:
        result["scores"] = [score for _, score in candidates]
    if asked.origins:
        result["words"] = [word_origins(text, a, b) for text in texts]
        result["shares"] = [share_of_first(text, a, b) for text in texts]
    return result


async def _events(
    rows: list[PairRow], results: AsyncIterator[tuple[int, Candidates]], asked: Interpolate
) -> AsyncIterator[str]:
    """Yield server-sent events: `result` for every finished row, then `done`, or `error`."""
    try:
        async for index, texts in results:
            yield _event("result", {"index": index, **_result(rows[index], texts, asked)})
    except Exception as error:  # the response has started, so the error must be an event
        yield _event("error", {"error": f"the server failed: {error}"})
        raise
    yield _event("done", {})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


async def _unless_disconnected(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """Compute the response; cancel it if the client closes the connection."""
    working = asyncio.create_task(answer)
    disconnecting = asyncio.create_task(_wait_for_disconnect(request))
    await asyncio.wait({working, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
    disconnecting.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.wait({working})
    return Response(status_code=CLIENT_CLOSED)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
