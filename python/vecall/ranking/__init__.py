"""Ranking of search results: weights, options, calibration, importance."""

from __future__ import annotations
