"""The programs of every door, for Haystack."""

from __future__ import annotations

import pytest
from helpers.door_programs import MORE_SCOPES, Door, DoorPrograms

pytest.importorskip("haystack", reason="haystack-ai is not installed")

from haystack import Document
from haystack.document_stores.types import DuplicatePolicy
from vecall.haystack import VecallDocumentStore


class StoreDoor(Door):
    module = "vecall.haystack"
    framework = "haystack"
    uses_the_service = False
    scopes = MORE_SCOPES

    def open(self, home):
        who = {"collection": home.scope, **home.who}
        self.store = VecallDocumentStore(str(home.path), **who)

    async def write(self, text):
        document = Document(id="same", content=text, embedding=[1.0, float(len(text))])
        await self.store.write_documents_async([document], DuplicatePolicy.OVERWRITE)

    async def read(self):
        is_same = {"field": "id", "operator": "==", "value": "same"}
        return (
            [
                [
                    each.content
                    for each in await self.store.filter_documents_async(filters)
                ]
                for filters in (None, is_same)
            ]
            + [
                each.content
                for each in await self.store.embedding_retrieval_async(
                    [1.0, 1.0], top_k=99
                )
            ]
            + [
                each.content
                for each in await self.store.bm25_retrieval_async("zebra", top_k=99)
            ]
        )

    async def clear(self):
        await self.store.delete_all_documents_async()

    async def close(self):
        self.store.close()


class TestDocumentStore(DoorPrograms):
    door = StoreDoor
