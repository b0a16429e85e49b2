"""What of a conversation is a memory, and what is not."""

from __future__ import annotations

from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.genai import types

from helpers.adk import PARROT, ROOM, an_event
from helpers.adk_conformance.checks import Place, Section

SECTION = Section("What is remembered")


@SECTION.check(
    "The agent's words are remembered beside the user's",
    "#827: why the AI's output too",
)
async def both(place: Place) -> None:
    memory = place.open()
    answer = an_event("I booked room 12.", id="e2", author="concierge")
    await memory.tell(an_event(ROOM, id="e1"), answer)
    assert ROOM in await memory.texts("quiet room")
    assert "I booked room 12." in await memory.texts("room 12")


@SECTION.check(
    "A thought does not make a memory be found",
    "thoughts are no answer to anybody; SqliteMemoryService leaves them out",
)
async def thought_found(place: Place) -> None:
    memory = place.open()
    thought = types.Part(text="The guest seems to be zzzthrifty.", thought=True)
    await memory.tell(an_event(thought, author="concierge"))
    assert await memory.search("zzzthrifty") == []


@SECTION.check(
    "A thought beside an answer does not come back",
    "a model's private reasoning; extract_text leaves it out after 2.13",
)
async def thought_returned(place: Place) -> None:
    memory = place.open()
    thought = types.Part(text="The guest seems to be zzzthrifty.", thought=True)
    await memory.tell(an_event(thought, "A quiet room it is.", author="concierge"))
    seen = await memory.shown("quiet room")
    assert "A quiet room it is." in seen
    assert "zzzthrifty" not in seen


@SECTION.check(
    "Function calls and their responses do not come back",
    "they are no text; load_memory's own answers would be memories of memories",
)
async def calls(place: Place) -> None:
    memory = place.open()
    call = types.FunctionCall(name="load_memory", args={"query": "zzzquiet room"})
    answer = types.FunctionResponse(name="load_memory", response={"is": "zzzroom"})
    await memory.tell(
        an_event(types.Part(function_call=call), author="concierge"),
        an_event(types.Part(function_response=answer)),
        an_event(ROOM),
    )
    seen = await memory.shown("zzzquiet zzzroom load_memory quiet room")
    assert ROOM in seen
    assert "zzz" not in seen


@SECTION.check(
    "The text beside a function call is remembered",
    "models speak while they call",
)
async def beside_a_call(place: Place) -> None:
    memory = place.open()
    call = types.Part(function_call=types.FunctionCall(name="look_up", args={}))
    await memory.tell(an_event(PARROT, call, author="concierge"))
    assert PARROT in await memory.texts("parrots")


@SECTION.check(
    "A request for credentials, and its answer, are not remembered",
    "google-adk shows them to no model; Vertex's service leaves them out",
)
async def credentials(place: Place) -> None:
    memory = place.open()
    name = "adk_request_credential"
    call = types.Part(function_call=types.FunctionCall(name=name, args={}))
    answer = types.FunctionResponse(name=name, response={"key": "s3cret"})
    await memory.tell(
        an_event("Sign in with your password.", call, author="concierge"),
        an_event("My password is s3cret.", types.Part(function_response=answer)),
        an_event(PARROT),
    )
    assert "s3cret" not in await memory.shown("password s3cret parrots")
    assert PARROT in await memory.texts("parrots")


@SECTION.check(
    "What was spoken is remembered by its transcription",
    "#3172, #3128: voice turns have no content",
)
async def voice(place: Place) -> None:
    memory = place.open()
    said = types.Transcription(text=PARROT, finished=True)
    answered = types.Transcription(text="Macaws are parrots.", finished=True)
    await memory.tell(
        Event(id="e1", author="user", input_transcription=said),
        Event(id="e2", author="concierge", output_transcription=answered),
    )
    found = await memory.texts("parrots")
    assert PARROT in found
    assert "Macaws are parrots." in found


def rewound() -> list[Event]:
    """Three turns, the second of which is taken back by the event after it."""
    back = EventActions(rewind_before_invocation_id="i2")
    return [
        an_event(ROOM, id="e1", invocation_id="i1"),
        an_event(PARROT, id="e2", invocation_id="i2"),
        Event(id="e3", author="user", invocation_id="i3", actions=back),
        an_event("Good night.", id="e4", invocation_id="i4"),
    ]


@SECTION.check(
    "A turn that was rewound is not remembered",
    "#4959: rewound turns stay in session.events as ghosts",
)
async def rewind(place: Place) -> None:
    memory = place.open()
    await memory.tell(*rewound())
    assert ROOM in await memory.texts("quiet room")
    assert PARROT not in await memory.texts("parrots")


@SECTION.check(
    "A turn that is rewound after it was remembered is forgotten",
    "#4959: when its session is added again",
)
async def rewound_later(place: Place) -> None:
    memory = place.open()
    await memory.tell(*rewound()[:2])
    assert PARROT in await memory.texts("parrots")
    await memory.tell(*rewound())
    assert ROOM in await memory.texts("quiet room")
    assert PARROT not in await memory.texts("parrots")


@SECTION.check(
    "A compacted session's turns stay recallable",
    "EventsCompactionConfig adds events without content",
)
async def compaction(place: Place) -> None:
    memory = place.open()
    summary = types.Content(role="model", parts=[types.Part(text="Room and parrots.")])
    compacted = EventCompaction(
        start_timestamp=0.0, end_timestamp=9.0, compacted_content=summary
    )
    await memory.tell(
        an_event(ROOM, id="e1", timestamp=1.0),
        an_event(PARROT, id="e2", timestamp=2.0),
        Event(id="c", author="user", actions=EventActions(compaction=compacted)),
    )
    assert ROOM in await memory.texts("quiet room")
    assert PARROT in await memory.texts("parrots")
