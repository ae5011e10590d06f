from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.health.dampening import Dampening, dampen
from agent.health.verdict import HEALTHY, Cause, Health

DEAD = Health(Cause.NO_CARRIER, "PF pf0 has no carrier")
DOWN = Health(Cause.PF_DOWN, "PF pf0 is administratively down")
HOLD_S = 1.0


def step(state: Dampening, now: float, **raw: Health) -> Dampening:
    return dampen(state, raw, now, HOLD_S)


def test_a_new_device_is_reported_at_once() -> None:
    state = step(Dampening(), 0.0, good=HEALTHY, bad=DEAD)
    assert state.reported == {"good": HEALTHY, "bad": DEAD}
    assert state.next_due is None


def test_failures_are_reported_at_once() -> None:
    state = step(step(Dampening(), 0.0, a=HEALTHY), 0.001, a=DEAD)
    assert state.reported == {"a": DEAD}
    assert state.next_due is None


def test_a_recovery_is_reported_after_it_was_stable_for_the_hold_time() -> None:
    state = step(step(Dampening(), 0.0, a=DEAD), 10.0, a=HEALTHY)
    assert (state.reported, state.next_due) == ({"a": DEAD}, 11.0)
    state = step(state, 10.999, a=HEALTHY)
    assert (state.reported, state.next_due) == ({"a": DEAD}, 11.0)
    state = step(state, 11.0, a=HEALTHY)
    assert (state.reported, state.next_due) == ({"a": HEALTHY}, None)


def test_every_failure_during_the_hold_time_restarts_it() -> None:
    state = step(step(Dampening(), 0.0, a=DEAD), 1.0, a=HEALTHY)
    state = step(state, 1.5, a=DEAD)
    assert (state.reported, state.next_due) == ({"a": DEAD}, None)
    state = step(state, 1.6, a=HEALTHY)
    assert state.next_due == 2.6
    assert step(state, 2.0, a=HEALTHY).reported == {"a": DEAD}
    assert step(state, 2.6, a=HEALTHY).reported == {"a": HEALTHY}


def test_a_flapping_device_is_reported_as_unhealthy_once() -> None:
    state = step(Dampening(), 0.0, a=HEALTHY)
    seen = []
    for tick in range(100):
        state = step(state, tick * 0.1, a=HEALTHY if tick % 2 else DEAD)
        seen.append(state.reported["a"])
    assert set(seen) == {DEAD}


def test_a_change_of_the_cause_is_reported_at_once_while_the_device_stays_unhealthy() -> None:
    state = step(step(Dampening(), 0.0, a=DEAD), 0.1, a=DOWN)
    assert state.reported == {"a": DOWN}


def test_each_device_recovers_by_its_own_clock_and_the_first_due_counts() -> None:
    state = step(Dampening(), 0.0, a=DEAD, b=DEAD)
    state = step(state, 1.0, a=HEALTHY, b=DEAD)
    state = step(state, 1.5, a=HEALTHY, b=HEALTHY)
    assert state.next_due == 2.0
    state = step(state, 2.0, a=HEALTHY, b=HEALTHY)
    assert (state.reported, state.next_due) == ({"a": HEALTHY, "b": DEAD}, 2.5)


def test_a_device_that_left_the_pool_is_forgotten_and_new_when_it_returns() -> None:
    state = step(step(Dampening(), 0.0, a=DEAD, b=DEAD), 1.0, a=HEALTHY)
    assert (set(state.reported), set(state.recovering)) == ({"a"}, {"a"})
    state = step(state, 1.1, b=HEALTHY)
    assert state == Dampening(reported={"b": HEALTHY})


def test_without_a_hold_time_recoveries_are_reported_at_once() -> None:
    state = dampen(dampen(Dampening(), {"a": DEAD}, 0.0, 0.0), {"a": HEALTHY}, 0.0, 0.0)
    assert state == Dampening(reported={"a": HEALTHY})


def test_a_shorter_hold_time_does_not_shorten_a_recovery_that_has_started() -> None:
    state = dampen(Dampening(reported={"a": DEAD}), {"a": HEALTHY}, 0.0, 10.0)
    assert dampen(state, {"a": HEALTHY}, 5.0, 1.0).reported == {"a": DEAD}
    assert dampen(state, {"a": HEALTHY}, 10.0, 1.0).reported == {"a": HEALTHY}


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from([HEALTHY, DEAD, DOWN])), max_size=30))
def test_reported_health_is_never_better_than_the_state_of_the_last_second(
    events: list[tuple[float, Health]],
) -> None:
    now, state, last_bad = 0.0, Dampening(), None
    for wait_s, health in events:
        now += wait_s
        state = step(state, now, a=health)
        if not health.healthy:
            last_bad = now
            assert state.reported["a"] == health
        elif last_bad is None:
            assert state.reported["a"].healthy
        elif state.reported["a"].healthy:
            assert now - last_bad >= HOLD_S
