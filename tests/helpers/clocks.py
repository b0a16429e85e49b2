"""Clocks that stand still until a test sets them, and a machine to be restarted."""

from __future__ import annotations

from pathlib import Path

from vecall.clock import Clock

DAY = 86_400.0
YEAR = 365 * DAY
START = 1_800_000_000.0


class SettableClock(Clock):
    """A clock of which every hand can be moved.

    Attributes:
        wall_s: What the wall clock shows.
        passing_s: Seconds since the machine was started.
        boots: How often the machine was started.
    """

    def __init__(self, wall: float = START, monotonic: float = 1_000.0) -> None:
        super().__init__()
        self.wall_s = wall
        self.passing_s = monotonic
        self.boots = 1

    def wall(self) -> float:
        return self.wall_s

    def monotonic(self) -> float:
        return self.passing_s

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def let_pass(self, seconds: float) -> None:
        """Time passes."""
        self.wall_s += seconds
        self.passing_s += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall_s += seconds

    def restart(self, off: float = 0.0, monotonic: float = 5.0) -> None:
        """The machine is off for some time, and started again."""
        self.wall_s += off
        self.passing_s = monotonic
        self.boots += 1


class UnnamedClock(SettableClock):
    """The clock of a machine that does not say when it was started."""

    def boot_id(self) -> str:
        return ""


class FileClock(Clock):
    """A clock that several processes share: a file says what it shows."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = Path(path)

    def set(self, wall: float, monotonic: float, boot: str = "boot") -> None:
        """Show something else from now on, everywhere at once."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{wall!r} {monotonic!r} {boot}", "ascii")
        new.replace(self._path)

    def wall(self) -> float:
        return float(self._said()[0])

    def monotonic(self) -> float:
        return float(self._said()[1])

    def boot_id(self) -> str:
        return self._said()[2]

    def _said(self) -> list[str]:
        return self._path.read_text("ascii").split(" ")
