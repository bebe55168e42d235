"""Identities are unique, sort by time and never come back."""

from uuid import RFC_4122

from taskbell.shared.ids import new_task_id, new_worker_id


def test_task_ids_are_version_7_and_differ() -> None:
    ids = [new_task_id() for _ in range(1000)]

    assert len(set(ids)) == len(ids)
    assert {(each.version, each.variant) for each in ids} == {(7, RFC_4122)}


def test_task_ids_sort_by_the_time_they_were_minted() -> None:
    first = new_task_id()
    clock = [new_task_id().int >> 64 for _ in range(1000)]

    assert clock == sorted(clock)
    assert first.int >> 64 <= clock[0]


def test_two_workers_of_one_process_have_different_names() -> None:
    assert new_worker_id("consumer") != new_worker_id("consumer")
