from __future__ import annotations

import pytest

from sagc.risk import RISK_MODELS, Prior
from sagc.stragglers import StragglerCounts

PRIOR = Prior(hits=2.0, rollouts=40.0)
CANDIDATES = (4, 8)


def counts(groups: int, stragglers: int, rollouts: int, hits: int) -> StragglerCounts:
    return StragglerCounts(groups=groups, straggler_groups=stragglers, rollouts=rollouts, hits=hits, skipped_groups=0)


@pytest.mark.parametrize("name", RISK_MODELS)
def test_before_any_step_every_model_reads_the_prior(name: str) -> None:
    model = RISK_MODELS[name]
    posterior = model.prior(CANDIDATES)
    for size in CANDIDATES:
        assert model.risk(posterior, size, PRIOR) == pytest.approx(1 - 0.95**size)


@pytest.mark.parametrize("name", RISK_MODELS)
def test_risk_stays_inside_zero_and_one_and_the_update_leaves_its_input(name: str) -> None:
    model = RISK_MODELS[name]
    for step in (counts(1, 1, 8, 8), counts(1, 0, 8, 0), counts(1000, 1000, 8000, 4000)):
        before = model.prior(CANDIDATES)
        posterior = before
        for _ in range(50):
            posterior = model.update(posterior, step, 8, 1.0)
        assert before == model.prior(CANDIDATES)
        for size in CANDIDATES:
            assert 0 < model.risk(posterior, size, PRIOR) <= 1
        assert model.risk(posterior, 4, PRIOR) < 1


@pytest.mark.parametrize("name", ["per_rollout", "pooled"])
def test_a_larger_group_is_riskier(name: str) -> None:
    model = RISK_MODELS[name]
    posterior = model.update(model.prior(CANDIDATES), counts(8, 3, 64, 5), 8, 0.9)
    risks = [model.risk(posterior, size, PRIOR) for size in (2, 4, 8, 16, 32)]
    assert risks == sorted(risks)
    assert len(set(risks)) == len(risks)


def test_per_rollout_forgets_counts_but_never_the_prior() -> None:
    model = RISK_MODELS["per_rollout"]
    posterior = model.update(model.prior(CANDIDATES), counts(8, 3, 64, 5), 8, 0.5)
    assert posterior == {"hits": 5.0, "rollouts": 64.0}
    posterior = model.update(posterior, counts(16, 1, 64, 1), 4, 0.5)
    assert posterior == {"hits": 3.5, "rollouts": 96.0}
    assert model.risk(posterior, 4, PRIOR) == pytest.approx(1 - (1 - 5.5 / 136) ** 4)
    for _ in range(200):
        posterior = model.update(posterior, counts(1, 0, 2, 0), 8, 0.5)
    assert model.risk(posterior, 4, PRIOR) == pytest.approx(1 - (1 - 2 / 44) ** 4)  # 2 / (1 - .5) = 4 rollouts left


def test_pooled_inverts_the_event_rate() -> None:
    model = RISK_MODELS["pooled"]
    posterior = model.update(model.prior(CANDIDATES), counts(8, 6, 16, 9), 2, 0.9)
    assert posterior == pytest.approx({"hits": 0.5 * 16, "rollouts": 16})  # 1 - (1 - 3/4)^(1/2) = 1/2


def test_pooled_takes_half_a_group_off_a_rate_of_one() -> None:
    model = RISK_MODELS["pooled"]
    posterior = model.update(model.prior(CANDIDATES), counts(2, 2, 8, 2), 4, 0.9)
    assert posterior["hits"] / posterior["rollouts"] == pytest.approx(1 - 0.25 ** (1 / 4))  # min(1, 1 - .5 / 2) = 3/4
    one_group = model.update(model.prior(CANDIDATES), counts(1, 1, 8, 1), 8, 0.9)
    assert one_group["hits"] / one_group["rollouts"] == pytest.approx(1 - 0.5 ** (1 / 8))


def test_beta_per_size_learns_the_size_played_and_lets_the_others_fade_to_the_prior() -> None:
    model = RISK_MODELS["beta_per_size"]
    posterior = model.update(model.prior(CANDIDATES), counts(8, 6, 64, 9), 8, 0.5)
    assert model.risk(posterior, 8, PRIOR) == pytest.approx((6 + 2 * (1 - 0.95**8)) / 10)
    assert model.risk(posterior, 4, PRIOR) == pytest.approx(1 - 0.95**4)
    posterior = model.update(posterior, counts(16, 4, 64, 4), 4, 0.5)
    assert model.risk(posterior, 8, PRIOR) == pytest.approx((3 + 2 * (1 - 0.95**8)) / 6)
    assert model.risk(posterior, 4, PRIOR) == pytest.approx((4 + 2 * (1 - 0.95**4)) / 18)
