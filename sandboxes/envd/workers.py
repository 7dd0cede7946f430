"""Threads for file work that may block: each job runs with its user's rights and its result comes back to the loop."""

from __future__ import annotations

import _thread
from _queue import SimpleQueue

from . import identity
from .loop import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .accounts import Account
    from .loop import Loop

_MOST_THREADS = 8
_jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
_threads = 0
_waiting = 0


async def run_as[T](loop: Loop, account: Account | None, work: Callable[[], T]) -> T:
    """What `work` returns or raises, done on a thread as `account` (None: as envd, for descriptors already open)."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def job() -> None:
        try:
            outcome.append(_with_rights(account, work))
        except BaseException as error:  # noqa: BLE001
            failure.append(error)
        loop.post(wait.fire)

    wait = Wait(loop)
    _submit(job)
    await wait
    _finished()
    if failure:
        raise failure[0]
    return outcome[0]


def _with_rights[T](account: Account | None, work: Callable[[], T]) -> T:
    if account is None:
        return work()
    with identity.acting_as(account):
        return work()


def _submit(job: Callable[[], None]) -> None:
    global _threads, _waiting
    _waiting += 1
    if _waiting > _threads and _threads < _MOST_THREADS:
        _threads += 1
        _thread.start_new_thread(_serve, ())
    _jobs.put(job)


def _finished() -> None:
    global _waiting
    _waiting -= 1  # on the loop's thread, like the adding: no lock is needed


def _serve() -> None:
    while True:
        _jobs.get()()
