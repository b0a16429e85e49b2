"""What is trusted, in scope, said by whom or too long is decided below every door."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
import vecall

SOURCE = Path(vecall.__file__).parent
LAYERS = Path(__file__).parents[2] / ".ci/check_layers"
KINDS = {
    "trust": "trust min_trust max_trust tier tiers ceiling floor rights TRUST_TIERS",
    "scope": "scope scopes",
    "speaker": "role role_of get_role author author_of speaker actor program",
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names.split()}
SIZES = {"len", "st_size"}

EXCEPTIONS = {
    (
        "anthropic.py",
        "length",
    ): "Anthropic's tool defines what it refuses",
    (
        "coding_agents/hook_command.py",
        "length",
    ): "a process's input, before it is parsed",
    ("pydantic_ai/harness_store.py", "length"): "labels of a file, which no memory has",
    ("server/requests.py", "length"): "a request of HTTP, before it is parsed",
    ("server/run.py", "length"): "a request of HTTP, before it is parsed",
    ("tools/output.py", "scope"): "a value that is the default is not shown",
}
"""File and kind of comparisons that decide nothing about memories, and why."""


def doors() -> list[Path]:
    """The files of the layers above the services, generated twins left out."""
    loader = SourceFileLoader("check_layers", str(LAYERS))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    layers = module_from_spec(spec)
    loader.exec_module(layers)
    names = set().union(*layers.PYTHON[-5:]) - {"__init__"}
    found = [SOURCE / f"{name}.py" for name in names]
    found += [file for name in names for file in (SOURCE / name).rglob("*.py")]
    return sorted(file for file in found if file.is_file())


def names_of(value: ast.AST) -> Iterator[str]:
    """What an operand is called: `x.role.value` and `x.get("role")` are a role."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, ast.Attribute):
        yield value.attr
        if value.attr in ("value", "lower", "strip", "get"):
            yield from names_of(value.value)
    elif isinstance(value, ast.Call):
        yield from names_of(value.func)
        yield from (str(a.value) for a in value.args if isinstance(a, ast.Constant))
    elif isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        yield str(value.slice.value)


def is_size(value: ast.AST, sizes: set[str]) -> bool:
    """Whether an operand is a length, or a variable that holds one."""
    return any(name in SIZES or name in sizes for name in names_of(value))


def is_limit(test: ast.AST, sizes: set[str]) -> bool:
    """Whether a length is compared with something that is none."""
    if not isinstance(test, ast.Compare):
        return False
    sides = [is_size(each, sizes) for each in (test.left, *test.comparators)]
    ordered = isinstance(test.ops[-1], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return ordered and any(sides) and not all(sides)


def sizes_in(function: ast.AST) -> set[str]:
    """The variables of a function that hold a length."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign)
        and any(is_size(each, set()) for each in ast.walk(node.value))
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name)
    }


def refuses(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(each, ast.Raise) for each in node.body
    )


def rules(tree: ast.AST) -> Iterator[str]:
    """The kind of each comparison that is a rule of a file's own."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        sizes = sizes_in(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Match):
                operands = [node.subject]
            elif isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
                if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
                    continue  # whether there is a value is no rule about it
            elif refuses(node):
                assert isinstance(node, ast.If)
                if any(is_limit(test, sizes) for test in ast.walk(node.test)):
                    yield "length"
                continue
            else:
                continue
            names = {name for operand in operands for name in names_of(operand)}
            yield from {KIND_OF[name] for name in names & KIND_OF.keys()}


@cache
def found_in_doors() -> set[tuple[str, str]]:
    return {
        (file.relative_to(SOURCE).as_posix(), kind)
        for file in doors()
        for kind in rules(ast.parse(file.read_text("utf-8")))
    }


def test_no_door_has_a_rule_of_its_own():
    assert sorted(found_in_doors() - EXCEPTIONS.keys()) == []


def test_every_exception_is_still_there():
    assert sorted(EXCEPTIONS.keys() - found_in_doors()) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("if tier > ceiling: pass", "trust"),
        ("x = memory.trust not in (None, own)", "trust"),
        ("x = entry.get('scope') == 'shared'", "scope"),
        ("x = [m for m in given if m.role.value == 'user']", "speaker"),
        ("match speaker_of(turn).program:\n  case _: pass", "speaker"),
        ("if len(text) > MOST: raise ValueError", "length"),
        ("size = len(text.encode())\n if size > 5: raise ValueError", "length"),
        ("n = 0\n n += len(text)\n if not 0 < n <= most: raise ValueError", "length"),
    ],
)
def test_a_rule_in_a_door_is_seen(line, kind):
    assert list(rules(ast.parse(f"def f():\n {line}"))) == [kind]


@pytest.mark.parametrize(
    "line",
    [
        "if token.trust is not None: pass",
        "if scope['type'] == 'http': pass",
        "page = text[:80] if len(text) > 80 else text",
        "if name == other: raise ValueError",
        "if len(texts) != len(vectors): raise ValueError",
    ],
)
def test_what_decides_nothing_about_memories_is_no_rule(line):
    assert list(rules(ast.parse(f"def f():\n {line}"))) == []
