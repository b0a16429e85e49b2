"""What every vector store must do. A store's tests derive from `VectorStoreContract`.

class TestMyStore(VectorStoreContract):
    def make_store(self):
        return MyStore()
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from vecall.vector_store import VectorStore

from helpers.vector_stores.plain import Plain
from helpers.vector_stores.refusing import Refusing
from helpers.vector_stores.searching import Searching
from helpers.vector_stores.sharing import Sharing
from helpers.vector_stores.storing import Storing


class VectorStoreContract(Searching, Storing, Sharing, Refusing):
    """All of it, for the stores that `make_store` makes."""

    def make_store(self) -> VectorStore:
        """Return a new, empty store. Threads and event loops will share it."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Iterator[Plain]:
        made = self.make_store()
        yield Plain(made)
        if hasattr(made, "close"):
            made.close()
