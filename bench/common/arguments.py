"""The command line of a benchmark."""

from __future__ import annotations

import argparse
import sys


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the module's docstring."""
    spec = sys.modules["__main__"].__spec__
    return argparse.ArgumentParser(
        prog=None if spec is None else f"python -m {spec.name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def parse_none(doc: str | None) -> None:
    """Accept no argument but --help."""
    parser(doc).parse_args()
