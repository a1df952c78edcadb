"""The one way to say that a number cannot be had."""

from __future__ import annotations

from sagc.errors import SagcError


class NotDecidable(SagcError):
    """A reading or a claim that the records at hand cannot give; the text is the reason, shown in the report."""
