"""Measures recall: data sets, runs, metrics, figures, confidence."""

from __future__ import annotations
