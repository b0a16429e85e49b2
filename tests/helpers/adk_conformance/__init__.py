"""What users of google-adk may expect of a memory service, as checks of any of them.

A check knows google-adk's contract and nothing of the service. It asks for what the
contract says, what google-adk's documents or source say, or what its users asked for
in an issue; what the contract leaves open is in a section of its own. bench/adk/
conformance.py prints who passes what.
"""

from __future__ import annotations

from helpers.adk_conformance import (
    contract,
    deleting,
    events,
    isolation,
    languages,
    lasting,
    left_open,
    metadata,
    queries,
    running,
    sharing,
    writing,
)
from helpers.adk_conformance.checks import Check, Outcome, Place, examine
from helpers.adk_conformance.kinds import KINDS, VECALL, WORDS, Kind

CHECKS: list[Check] = [
    check
    for module in (
        contract,
        running,
        writing,
        events,
        metadata,
        deleting,
        isolation,
        queries,
        languages,
        lasting,
        sharing,
        left_open,
    )
    for check in module.SECTION.checks
]

__all__ = [
    "CHECKS",
    "KINDS",
    "VECALL",
    "WORDS",
    "Check",
    "Kind",
    "Outcome",
    "Place",
    "examine",
]
