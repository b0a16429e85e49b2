"""The door to google-adk defines what google-adk asks of a memory service (S4.14)."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory import BaseMemoryService
from google.adk.sessions import InMemorySessionService
from helpers.adk import a_session, adk_service
from vecall.adk import VecallMemoryService

service = pytest.fixture(adk_service)


def test_the_service_defines_every_method_of_the_contract_with_its_signature() -> None:
    """S1.3 to S1.7, S3.1: nothing is left to the base class, which would raise."""
    methods = [
        "add_session_to_memory",
        "add_events_to_memory",
        "add_memory",
        "search_memory",
        "delete_memory",
    ]
    for name in methods:
        own = parameters(vars(VecallMemoryService)[name])
        if name in vars(BaseMemoryService):  # google-adk 1.21 has two of them
            assert own == parameters(vars(BaseMemoryService)[name])


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


def test_an_invocation_context_accepts_the_service(
    service: VecallMemoryService,
) -> None:
    """S1.1, S3.16: google-adk insists on an instance of its own base class."""
    context = InvocationContext(
        session_service=InMemorySessionService(),
        memory_service=service,
        invocation_id="i1",
        agent=LlmAgent(name="concierge"),
        session=a_session(),
    )
    assert context.memory_service is service


def test_an_empty_service_is_true(service: VecallMemoryService) -> None:
    """S0.49: the web server takes a service that is false for a missing one."""
    assert service
    assert not hasattr(service, "__len__")


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_google_adk_the_import_names_the_extra() -> None:
    """S1.11: and `import vecall` does not miss it."""
    code = """
import sys
sys.modules["google.adk"] = None
import vecall
try:
    import vecall.adk
except ImportError as error:
    print(error)
"""
    assert 'pip install "vecall[adk]"' in run_python(code)


def test_importing_vecall_imports_nothing_of_google() -> None:
    """S1.11."""
    code = """
import sys
import vecall
print([name for name in sys.modules if name.startswith(("google.adk", "google.genai"))])
"""
    assert run_python(code).strip() == "[]"
