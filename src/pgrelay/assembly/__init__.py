"""Puts transactions into commit order. Open ones wait here, in memory or on disk."""
