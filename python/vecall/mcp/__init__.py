"""Memory over the Model Context Protocol: a server for stdio and HTTP.

Needs vecall[mcp].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import mcp  # noqa: F401
except ImportError as error:
    raise ImportError('vecall.mcp needs mcp: pip install "vecall[mcp]"') from error

from vecall.mcp.server import create_server, private_pipes, run_stdio

if TYPE_CHECKING:
    from vecall.mcp.asgi import asgi_app

__all__ = ["asgi_app", "create_server", "private_pipes", "run_stdio"]


def __getattr__(name: str) -> object:
    if name == "asgi_app":  # needs vecall[server] too
        from vecall.mcp.asgi import asgi_app

        return asgi_app
    raise AttributeError(f"module 'vecall.mcp' has no attribute {name!r}")
