"""Kills, power loss, long runs and cancelled calls."""
