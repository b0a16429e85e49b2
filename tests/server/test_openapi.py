"""The OpenAPI document is true, and no request that is made from it is a fault."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")
pytest.importorskip("jsonschema")

import jsonschema
from helpers.campaigns import REPEATS, scaled
from helpers.http import ALICE, Door, bearing
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from vecall import MemoryService, Session
from vecall.limits import Limits
from vecall.server import HttpLimits, Tokens, create_app, mint
from vecall.server.operations import all_operations
from vecall.server.requests import Validator
from vecall.server.responses import HttpError
from vecall.server.schemas import ref, shared_schemas

if find_spec("schemathesis") is None:
    pytest.skip("needs schemathesis", allow_module_level=True)

SHARED = shared_schemas(all_operations(HttpLimits(), Limits()), HttpLimits())
BODIES = [
    "Ingest",
    "AddMemories",
    "AddEvents",
    "Search",
    "Change",
    "Used",
    "Turns",
    "DeleteWhere",
]
EXAMPLES = scaled(5)
ROLES = {"user": {"app": "hotel"}, "admin": {"admin": True}}


async def load_session(*, app_name, user_id, session_id):
    if len(session_id) % 2:
        return None
    return Session(app_name, user_id, session_id, [{"content": "x", "id": "1"}])


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """A door for each kind of token, to one memory, with nothing to slow them down."""
    folder = tmp_path_factory.mktemp("backups")
    made = {role: mint(**bound) for role, bound in ROLES.items()}
    tokens = Tokens(token for _, token in made.values())
    limits = HttpLimits(reads_per_second=100_000, writes_per_second=100_000)
    with MemoryService(embedder=None) as memory:
        app = create_app(
            memory,
            tokens=tokens,
            limits=limits,
            session_loader=load_session,
            backups=folder,
            hosts=["testserver", "localhost"],  # as schemathesis calls it
        )
        yield {role: Door(app, bearer) for role, (bearer, _) in made.items()}


@pytest.fixture(scope="module")
def document(doors):
    return doors["user"].ask("GET", "/openapi.json").json()


PUBLIC = "health live openapi ready".split()
ADMINS = "adminDeleteApp adminDeleteUser backup metrics".split()
ASKED = (
    "conflicts deleteUser duplicates exportUser listApps listMemories listSessions "
    "listUsers memoryFigures"
).split()  # with a query
TOLD = (  # with a body
    "addEvents addMemories confirmForget consolidate countMemories deleteWhere "
    "endSession explainMemory ingestSession listWhere markUsed observeSession "
    "preloadMemories proposeForget releaseMemory searchMemories touchMemories "
    "updateMemory"
).split()
NAMED = (  # by their paths alone
    "archiveMemory deleteMemory deleteSession getMemory memoryHistory restoreMemory "
    "showToken"
).split()
OPERATIONS = sorted([*PUBLIC, *ADMINS, *ASKED, *TOLD, *NAMED])


def test_the_document_names_every_operation_once(document):
    """And every reference in it leads somewhere."""
    named = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    assert sorted(named) == OPERATIONS
    schemas = document["components"]["schemas"]
    for part in json.dumps(document).split('"$ref": "')[1:]:
        assert part.split('"')[0].removeprefix("#/components/schemas/") in schemas
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


KNOWN = "known"
KNOWN_BODY = {"memories": [{"content": "known", "id": KNOWN}], "restore": True}
# Without positive_data_acceptance: some rules are no JSON Schema's, as of bytes, NUL,
# or floors that need an embedder. Without negative_data_rejection: on the wire some of
# what breaks a rule breaks none any more; bodies are compared by themselves below.
CHECKS = (
    "allow_header_conformance ignored_auth missing_required_header not_a_server_error "
    "status_code_conformance content_type_conformance response_schema_conformance "
    "response_headers_conformance unsupported_method"
).split()


MODES = [
    *((name, "positive") for name in OPERATIONS),
    *((name, "negative") for name in [*ASKED, *TOLD, "adminDeleteApp"]),
]


@pytest.fixture(scope="module")
def schema(doors):
    import schemathesis  # seconds: not where tests are collected

    return schemathesis.openapi.from_asgi("/openapi.json", doors["user"].app)


@pytest.mark.campaign
@pytest.mark.parametrize(("operation_id", "mode"), MODES)
def test_what_is_made_from_the_document_is_answered_as_it_says(
    doors, schema, operation_id, mode
):
    """Requests that follow it and that break it: no 5xx, no answer it does not name."""
    import schemathesis
    from schemathesis import checks

    door = doors["admin" if operation_id in ADMINS else "user"]
    operation = schema.find_operation_by_id(operation_id)
    generation = schemathesis.GenerationMode(mode)
    checked = [getattr(checks, name) for name in CHECKS]

    @given(case=operation.as_strategy(generation_mode=generation))
    @settings(
        max_examples=EXAMPLES,
        derandomize=REPEATS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def hold(case):
        names = case.path_parameters or {}
        if "app" in names:
            names["app"] = "hotel"
        if "id" in names and mode == "positive":  # sometimes it is there
            names["id"] = KNOWN if len(names["id"]) % 2 else names["id"]
            names["user"] = "alice" if names["id"] == KNOWN else names["user"]
            doors["user"].ask("POST", f"{ALICE}/memories", json=KNOWN_BODY)
        case.call_and_validate(headers=bearing(door.bearer), checks=checked)

    hold()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            "query k filter memories events content parts session_id sessionId "
            "min_similarity restore importance timestamp author ids kind x".split()
        ),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", BODIES)
@given(value=values)
@settings(max_examples=30, derandomize=True, deadline=None, database=None)
def test_bodies_are_checked_as_json_schema_says(name, value):
    """The same verdict as an independent validator."""
    whole = {**ref(name), "components": {"schemas": SHARED}}
    expected = jsonschema.Draft202012Validator(whole).is_valid(value)
    assert _passes(value, name) == expected


def _passes(value, name):
    try:
        Validator(SHARED).check_value(value, ref(name))
    except HttpError as error:
        return error.status != 422
    return True
