"""When a process may judge other processes by the age of their leases."""

from headway.ledger.job import OUTAGE_GRACE_MS, LeaseWatch


def test_a_process_may_judge_others_from_the_start() -> None:
    watch = LeaseWatch()

    assert watch.may_judge(50_000)
    assert watch.may_judge(90_000)  # it was slow or frozen, but the others were not


def test_after_an_outage_others_get_time_to_renew_their_leases() -> None:
    watch = LeaseWatch()
    for began in (50_000, 90_000):
        watch.record_outage()
        watch.record_outage()
        times = [began, began + OUTAGE_GRACE_MS - 1, began + OUTAGE_GRACE_MS]

        assert [watch.may_judge(now) for now in times] == [False, False, True]
