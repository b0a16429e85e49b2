"""Registers the URI scheme with google-adk's command line and web server."""

from __future__ import annotations

from typing import Any

from vecall.adk.memory_service import VecallMemoryService, check_options
from vecall.adk.uri import SCHEME


def register(**options: Any) -> bool:
    """Register "vecall://…" for `adk web`, `adk api_server` and `adk run`.

    Call it in the file services.py of the agents' folder.

    Args:
        options: Arguments of every `VecallMemoryService` created from a URI, for
            options that a URI cannot hold, such as your own embedder.

    Returns:
        False if this version of google-adk has no service registry.

    Raises:
        ConfigError: An option is unknown.
    """
    check_options(options)
    try:
        from google.adk.cli.service_registry import get_service_registry
    except ImportError:
        return False

    def make(uri: str, **given: Any) -> VecallMemoryService:
        return VecallMemoryService(uri=uri, **{**options, **given})

    get_service_registry().register_memory_service(SCHEME, make)
    return True
