"""Serves memory to a host that runs bundles."""

from __future__ import annotations

import sys

from vecall.cli.main import main

sys.exit(main(["mcp"]))
