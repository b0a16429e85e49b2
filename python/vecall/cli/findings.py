"""Prints what an examination found."""

from __future__ import annotations

import argparse
import dataclasses

from vecall.cli.streams import one_line
from vecall.cli.terminal import bold, dim, print_json
from vecall.store import Finding

_MARKS = {"ok": "ok", "note": "note", "warning": "WARNING", "error": "ERROR"}


def print_findings(
    options: argparse.Namespace, done: list[str], findings: list[Finding]
) -> int:
    """Print the actions and the findings; return 1 if one of them is an error."""
    bad = any(finding.level == "error" for finding in findings)
    if options.json:
        as_dicts = [dataclasses.asdict(finding) for finding in findings]
        print_json({"done": done, "findings": as_dicts, "damaged": bad})
        return int(bad)
    for line in done:
        print(bold(one_line(line)))
    for finding in findings:
        mark = _MARKS[finding.level]
        shown = dim(mark) if finding.level == "ok" else bold(mark)
        message = one_line(finding.message)
        print(f"{one_line(finding.about):12} {shown}  {message}")
    return int(bad)
