"""What `sagc` raises when a caller hands it something it cannot honour."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SagcError(Exception):
    """Root of every error that this project raises on purpose."""


class ConfigError(SagcError, ValueError):
    """A setting that cannot be honoured; the text names the value and the cure."""


class ObservationError(SagcError, ValueError):
    """Rollout lengths that are not lengths: NaN, infinite, negative, or of the wrong shape."""


class StateError(SagcError, ValueError):
    """A saved state that does not belong to this policy or this configuration."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> ConfigError:
    """An error that lists the known names and offers the nearest one.

    Args:
        kind: what was named, e.g. ``"arm"``.
        name: the value that was given.
        known: every accepted name.

    Returns:
        The error, for the caller to raise.
    """
    names = list(known)
    nearest = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return ConfigError(f"{kind} must be a known name, got {name!r}; {hint}known: {', '.join(names)}")
