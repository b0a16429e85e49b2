"""How a search ranks: weights, options, calibration, importance."""

from __future__ import annotations
