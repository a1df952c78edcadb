"""Sets from the Hub; the only module that imports `datasets` and `huggingface_hub`."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from benchmarks.evaluation.problems import EvaluationSet, SetError

ANSWER_TIME_S = 20.0
"""A Hub that says nothing for this long is not reached [ours]; `datasets` alone tries for half a minute."""
_FULL_REVISION = re.compile(r"[0-9a-f]{40}")


def load_rows(row: EvaluationSet, revision: str | None) -> list[dict[str, Any]]:
    """The rows of a set at `revision`, or the newest; from the Hub's cache alone under HF_HUB_OFFLINE=1.

    Raises:
        SetError: if the Hub does not hand them out; the text says what to accept, log in to or pass.
    """
    source = row.source
    assert source is not None
    import datasets
    from huggingface_hub.constants import is_offline_mode

    try:
        fixed = revision if is_offline_mode() else full_revision(row, revision)
        table = datasets.load_dataset(source.repository, source.config, split=source.split, revision=fixed)
    except Exception as error:  # three libraries raise what they like here, and it changes with their versions
        _refuse(row, error)
    return [dict(entry) for entry in table]


def full_revision(row: EvaluationSet, revision: str | None) -> str:
    """The 40-digit commit of `revision`, which may be abbreviated; of the newest commit for None.

    Raises:
        SetError: if the Hub does not answer or has no such commit.
    """
    assert row.source is not None
    from huggingface_hub import HfApi

    api, repository = HfApi(), row.source.repository
    try:
        newest = api.dataset_info(repository, timeout=ANSWER_TIME_S).sha
        if revision is None:
            return str(newest)
        if _FULL_REVISION.fullmatch(revision):
            return revision
        commits = [commit.commit_id for commit in api.list_repo_commits(repository, repo_type="dataset")]
    except Exception as error:  # as above
        _refuse(row, error)
    found = [commit for commit in commits if commit.startswith(revision)]
    if len(found) != 1:
        raise SetError(
            f"{row.name}: revision must be one commit of {repository}, got {revision!r} for {len(found)}; "
            "correct the lock file"
        )
    return found[0]


def _refuse(row: EvaluationSet, error: Exception) -> NoReturn:
    if isinstance(error, SetError):
        raise error
    assert row.source is not None
    page = f"https://huggingface.co/datasets/{row.source.repository}"
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    cure = (
        f"{row.gate} at {page}, log in with `hf auth login`"
        if row.gate
        else "check the connection, set HF_HUB_OFFLINE=1 if it is in the cache"
    )
    raise SetError(
        f"{row.name}: {row.source.repository} must be to be had from the Hub, got {reason}; "
        f"{cure}, or pass a copy by --data"
    ) from error
