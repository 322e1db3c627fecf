"""When a process may judge other processes by the age of their leases."""

from headway.ledger.job import LEASE_MS, OUTAGE_GRACE_MS, LeaseWatch

SWEEP_MS = 1_000


def test_a_process_that_looks_every_second_may_judge_from_the_start() -> None:
    watch = LeaseWatch()

    assert all(watch.may_judge(now) for now in range(50_000, 60_000, SWEEP_MS))


def test_after_an_outage_others_get_time_to_renew_their_leases() -> None:
    watch, back_at = LeaseWatch(), 50_000 + LEASE_MS + 1
    assert watch.may_judge(50_000)

    judged = [watch.may_judge(now) for now in range(back_at, back_at + OUTAGE_GRACE_MS + SWEEP_MS, SWEEP_MS)]

    assert judged == [False] * (OUTAGE_GRACE_MS // SWEEP_MS) + [True]


def test_a_second_outage_begins_the_time_again() -> None:
    watch = LeaseWatch()
    assert watch.may_judge(0)
    for outage in (1, 2):
        assert not watch.may_judge(outage * (LEASE_MS + 1))

    assert not watch.may_judge(2 * (LEASE_MS + 1) + LEASE_MS)
