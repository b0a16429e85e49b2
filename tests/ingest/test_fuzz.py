"""Anything at all is taken, or refused by a typed error."""

from __future__ import annotations

import pytest
from helpers.campaigns import examples
from helpers.memories import ALICE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vecall import MemoryService, NotFoundError, VecallError

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["zebra", "\0", "\ud800", "user", "1h", "9999-12-31T23:59:59-12:00"]
    )
)
FIELDS = (
    "content parts text author timestamp id session_id event_id role thought "
    "custom_metadata ttl importance kind source trust partial metadata memory type "
    "created_at invocation_id actions"
).split()


def nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    objects = st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    return st.lists(inner, max_size=3) | objects


JSON = st.recursive(LEAVES, nested, max_leaves=12)


@pytest.fixture(scope="module")
def fuzzed():
    with MemoryService(embedder=None) as opened:
        opened.sync.add_memory(**ALICE, memories=["zebra"])
        yield opened


@pytest.mark.campaign
@settings(
    max_examples=examples(300),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=JSON)
def test_anything_at_all_is_either_taken_or_refused_by_a_typed_error(
    fuzzed, in_time, value
):
    """Guarantee 6: no other exception, and the service goes on."""
    adds = [
        lambda: fuzzed.sync.add_session_to_memory(
            {**ALICE, "id": "s", "events": value}
        ),
        lambda: fuzzed.sync.add_events_to_memory(**ALICE, events=[value]),
        lambda: fuzzed.sync.add_memory(**ALICE, memories=[value]),
        lambda: fuzzed.sync.add_memory(
            **ALICE, memories=["zebra"], custom_metadata=value
        ),
    ]
    for add in adds:
        try:
            ids = in_time(add)
        except VecallError:
            continue
        for id_ in ids.stored:
            try:
                assert fuzzed.sync.get_memory(**ALICE, memory_id=id_).id == id_
            except NotFoundError:
                assert "ttl" in str(value)  # it may be over by now
    fuzzed.sync.search_memory(**ALICE, query="zebra")
