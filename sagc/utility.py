"""What a larger group is worth: U(g) = f(g) / f(g_K), f increasing and concave.

Part of the reference reading of arXiv 2606.02218: the utility of the source is not public, so f is a row of a
table and a sweep can name it (design 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

UTILITIES: dict[str, Callable[[int], float]] = {
    "log": math.log,  # the default [ours]
    "inverse": lambda group_size: 1 - 1 / group_size,  # share of variance that the group baseline removes
    "sqrt": math.sqrt,
    "inverse_sqrt": lambda group_size: 1 - 1 / math.sqrt(group_size),
}
"""f by name; each is increasing, concave and positive from G = 2 on."""


def utilities(name: str, candidates: Sequence[int]) -> list[float]:
    """Normalised utility of each candidate: U(g) = f(g) / f(g_K).

    Args:
        name: a key of `UTILITIES`.
        candidates: group sizes, each >= 2, ascending.

    Returns:
        One value in (0, 1] per candidate, ascending; the last is 1, so prices compare across tasks.

    Degenerate cases: a single candidate gives [1.0]. A group size of 1 has no place here: f may be 0 there.

    Source: ours; see the module's first lines.
    """
    f = UTILITIES[name]
    scale = f(candidates[-1])
    return [f(group_size) / scale for group_size in candidates]
