"""Offline optima: exact where the instance allows it, a certified bracket where it does not."""
