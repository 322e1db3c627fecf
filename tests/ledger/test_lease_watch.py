"""When a process may judge other processes by the age of their leases."""

from headway.ledger.job import LEASE_MS, OUTAGE_GRACE_MS, LeaseWatch


def test_a_process_may_judge_others_from_the_start() -> None:
    watch = LeaseWatch()

    assert watch.may_judge(50_000)
    assert watch.may_judge(50_000 + LEASE_MS - 1)


def test_after_a_standstill_others_get_time_to_renew_their_leases() -> None:
    """The whole machine may have stood still or slept."""
    watch = LeaseWatch()
    watch.may_judge(50_000)
    woken = 50_000 + LEASE_MS

    assert [watch.may_judge(woken + ms) for ms in (0, 1_000, 3_000, LEASE_MS - 1, LEASE_MS)] == [False] * 4 + [True]


def test_a_process_that_is_always_slow_judges_others_all_the_same() -> None:
    watch = LeaseWatch()

    assert [watch.may_judge(n * LEASE_MS) for n in range(5)] == [True, False, True, True, True]


def test_after_an_outage_others_get_time_to_renew_their_leases() -> None:
    watch = LeaseWatch()
    for began in (50_000, 90_000):
        watch.record_outage()
        watch.record_outage()
        times = range(began, began + OUTAGE_GRACE_MS + 1, 2_000)

        assert [watch.may_judge(now) for now in times] == [False] * 5 + [True]
