"""The TypeScript client is the one of the server's OpenAPI document."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib.machinery import SourceFileLoader
from typing import Any

import pytest

pytest.importorskip("httptools")

from helpers.paths import ROOT

CLIENT = ROOT / "clients/typescript"
GENERATOR = ROOT / ".ci/generate_typescript"
if not GENERATOR.exists():
    pytest.skip("only a clone has the client", allow_module_level=True)


def generator() -> Any:
    loader = SourceFileLoader("generate_typescript", str(GENERATOR))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_generated_files_are_those_of_the_document():
    """`.ci/generate_typescript` writes them."""
    for name, text in generator().files().items():
        assert (CLIENT / "src" / name).read_text() == text, name


def test_every_operation_is_a_method_with_its_types():
    """Read from the files, not from the generator."""
    module = (CLIENT / "src/operations.js").read_text()
    declared = (CLIENT / "src/operations.d.ts").read_text()
    from vecall.limits import Limits
    from vecall.server import HttpLimits
    from vecall.server.operations import all_operations

    for operation in all_operations(HttpLimits(), Limits()):
        assert f'method: "{operation.method}", path: "{operation.path}"' in module
        assert re.search(rf"^  {operation.id}\(", module, re.M)
        signature = re.search(rf"^  {operation.id}\((.*)\): (.*);$", declared, re.M)
        assert signature is not None
        if operation.body is not None:
            assert re.search(rf"body\??: {operation.body}\b", signature[1])
        if operation.answer is not None and "/" not in operation.answer:
            assert signature[2] == f"Promise<{operation.answer}>"


def test_the_package_has_the_version_and_the_licence_of_vecall():
    """And no dependency."""
    package = json.loads((CLIENT / "package.json").read_text())
    version = re.search(
        r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert version is not None
    assert package["version"] == version[1]
    assert not any("ependencies" in name for name in package)
    assert (CLIENT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
