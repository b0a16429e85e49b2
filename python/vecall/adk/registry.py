"""Registers the URI scheme with google-adk's command line and web server."""

from __future__ import annotations

from typing import Any

from vecall.adk.memory_service import VecallMemoryService, check_options
from vecall.adk.uri import SCHEMES


def register(**options: Any) -> bool:
    """Register vecall's schemes for `adk web`, `adk api_server` and `adk run`.

    They are "vecall://…" for a file, and "vecall+postgresql://…" for a database.
    Call this in the file services.py of the agents' folder.

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

    for scheme in SCHEMES:
        get_service_registry().register_memory_service(scheme, make)
    return True
