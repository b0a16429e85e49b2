"""A memory in your own server; any number of workers share one file.

uvicorn fastapi_app:app --workers 4
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from vecall import MemoryService

PATH = os.environ.get("VECALL_PATH", "memory.db")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open one service for the whole life of a worker."""
    async with MemoryService(PATH) as memory:
        app.state.memory = memory
        yield


app = FastAPI(lifespan=lifespan)


# In your server the user comes from the login, never from the client.
@app.post("/users/{user}/notes")
async def note(user: str, text: str) -> None:
    """Store what the user said."""
    await app.state.memory.user("hotel", user).add([text])


@app.get("/users/{user}/notes")
async def recall(user: str, query: str) -> list[str]:
    """Return what helps to answer the user."""
    found = await app.state.memory.user("hotel", user).search(query)
    return [each.text for each in found]


@app.get("/readyz")
async def ready() -> dict[str, int]:
    """Fail unless the storage answers."""
    return {"memories": (await app.state.memory.admin.stats())["memories"]}
