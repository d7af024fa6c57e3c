"""An application that takes pictures, and makes them smaller when it has time.

``uvicorn app:app`` does both in one process. For a worker beside it, leave out the three lines around `yield` and
``/health``, and start ``beanpole worker app:worker --processes 2``.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

from beanpole import AsyncClient, Worker

worker = Worker(concurrency=10)  # the server is that of BEANPOLE_URL, or else 127.0.0.1:11300


@worker.function("thumbnails", max_attempts=5, timeout=60)
async def shrink(picture: str, width: int = 200) -> None:
    """Make a picture smaller."""
    await asyncio.sleep(0.1)  # the work
    print(f"{picture} is {width} wide", flush=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Work as long as the application answers; handlers that run at its end have the worker's grace period."""
    async with AsyncClient(worker.address) as app.state.queue:
        app.state.working = asyncio.create_task(worker.serve())
        yield
        worker.stop()
        await app.state.working


app = FastAPI(lifespan=lifespan)


@app.post("/pictures/{name}", status_code=202)
async def add_picture(name: str, width: int = 200) -> dict[str, int]:
    """Put a job for a picture."""
    return {"job": await shrink.aput(name, width=width)}


@app.get("/queue")
async def queue() -> dict[str, int]:
    """Say how much work there is."""
    stats = await app.state.queue.stats_tube("thumbnails")
    return {"ready": stats.current_jobs_ready, "reserved": stats.current_jobs_reserved, "all": stats.total_jobs}


@app.get("/health")
async def health() -> dict[str, str]:
    """Say whether the worker works."""
    if app.state.working.done() or not worker.counters.connections:
        raise HTTPException(503, "the worker has no connection to its server, or has ended")
    return {"worker": "works"}
