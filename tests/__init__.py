"""Mirrors the tree. A package, so that `tests.x` is never the `tests` of an installed distribution."""
