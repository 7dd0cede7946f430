"""A single-threaded event loop for coroutines over epoll, small enough to start in a millisecond.

One coroutine parks on one `Wait`; any number of sources (a descriptor, a timer, another coroutine) may fire it and the
first one wins. Blocking file work runs on threads (`workers`) and comes back through `post`.
"""

from __future__ import annotations

import os
import select
import time
from _heapq import heapify, heappop, heappush

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from typing import Any

    Work = Coroutine[Any, Any, object]

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
READY = "ready"
"""What `park` returns when its descriptor is ready."""
LATE = "late"
"""What `park` returns when its time is over."""
NEWS = "news"
"""What `park` returns when another coroutine fired the wait."""

_EVENTS_PER_TURN = 128
_CANCELLED_TIMERS_KEPT = 256
now = time.monotonic


class Cancelled(BaseException):
    """Raised inside a coroutine whose task was cancelled."""


class Timer:
    __slots__ = ("action", "when")

    def __init__(self, when: float, action: Callable[[], None] | None) -> None:
        self.when = when
        self.action = action

    def __lt__(self, other: Timer) -> bool:
        return self.when < other.when


class Task:
    """A running coroutine. `join` waits for its end; `cancel` makes it raise `Cancelled` where it is parked."""

    __slots__ = ("cancelled", "coro", "done", "loop", "waiters", "wanted")

    def __init__(self, loop: Loop, coro: Work) -> None:
        self.loop = loop
        self.coro = coro
        self.done = False
        self.cancelled = False
        self.wanted: Wait | None = None
        self.waiters: list[Wait] = []

    def cancel(self) -> None:
        self.cancelled = True
        if self.wanted:
            self.wanted.fire()

    async def join(self) -> None:
        if not self.done:
            wait = Wait(self.loop)
            self.waiters.append(wait)
            await wait


class Wait:
    """One parked coroutine; the first source that fires it decides what the `await` returns or raises."""

    __slots__ = ("loop", "task")

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.task: Task | None = loop.current

    def fire(self, cause: object = NEWS) -> None:
        if self.task:
            self.loop.resume(self.task, cause)
            self.task = None

    def __await__(self) -> Generator[Wait, object, object]:
        return (yield self)


class Loop:
    def __init__(self) -> None:
        self.current: Task | None = None
        self.on_signal: Callable[[int], None] = lambda number: None
        self._epoll = select.epoll()
        self._readers: dict[int, Wait] = {}
        self._writers: dict[int, Wait] = {}
        self._timers: list[Timer] = []
        self._cancelled = 0
        self._resumed: list[tuple[Task, object]] = []
        self._posted: list[Callable[[], None]] = []
        self._alarm, self.alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """Writing to `alarm` wakes the loop: a zero byte for `post`, a signal's number from the interpreter."""
        self._epoll.register(self._alarm, READ)

    def start(self, coro: Work) -> Task:
        task = Task(self, coro)
        self.resume(task, None)
        return task

    def resume(self, task: Task, cause: object) -> None:
        self._resumed.append((task, cause))

    def post(self, action: Callable[[], None]) -> None:
        """Runs `action` on the loop. Safe from any thread."""
        self._posted.append(action)
        self._ring()

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        timer = Timer(when, action)
        heappush(self._timers, timer)
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forgets a timer. Dead ones are swept when they are many, so waits with a limit cost bounded memory."""
        if timer.action is None:
            return
        timer.action = None
        self._cancelled += 1
        if self._cancelled > _CANCELLED_TIMERS_KEPT and self._cancelled * 2 > len(self._timers):
            self._timers = [each for each in self._timers if each.action]
            heapify(self._timers)
            self._cancelled = 0

    async def park(self, wait: Wait, fd: int = -1, side: int = READ, until: float | None = None) -> object:
        """Parks the running coroutine until `wait` is fired, `fd` is ready (`READY`) or `until` has passed (`LATE`)."""
        timer = self.at(until, lambda: wait.fire(LATE)) if until is not None else None
        if fd >= 0:
            self._watch(fd, side, wait)
        try:
            return await wait
        finally:
            if fd >= 0:
                self._unwatch(fd, side)
            if timer:
                self.cancel(timer)

    async def ready(self, fd: int, side: int = READ, until: float | None = None) -> bool:
        """Waits for a descriptor; False when `until` (monotonic seconds) came first."""
        return await self.park(Wait(self), fd, side, until) is READY

    async def sleep(self, seconds: float) -> None:
        await self.park(Wait(self), until=now() + seconds)

    def run(self) -> None:
        while True:
            self.turn()

    def turn(self) -> None:
        for fd, mask in self._epoll.poll(self._patience(), _EVENTS_PER_TURN):
            self._fire(fd, mask)
        self._run_timers()
        resumed, self._resumed = self._resumed, []
        for task, cause in resumed:
            self._step(task, cause)

    def _patience(self) -> float:
        if self._resumed:
            return 0
        while self._timers and self._timers[0].action is None:
            heappop(self._timers)
            self._cancelled -= 1
        return max(0.0, self._timers[0].when - now()) if self._timers else -1

    def _fire(self, fd: int, mask: int) -> None:
        if fd == self._alarm:
            self._answer_alarm()
            return
        reader, writer = self._readers.get(fd), self._writers.get(fd)
        if reader and mask & ~WRITE:
            reader.fire(READY)
        if writer and mask & ~READ:
            writer.fire(READY)

    def _ring(self) -> None:
        try:
            os.write(self.alarm, b"\0")
        except BlockingIOError:
            pass  # the pipe is full: the loop wakes anyway

    def _answer_alarm(self) -> None:
        for number in set(os.read(self._alarm, 4096)):
            if number:
                self.on_signal(number)
        posted, self._posted = self._posted, []
        for action in posted:
            action()

    def _run_timers(self) -> None:
        moment = now()
        while self._timers and self._timers[0].when <= moment:
            timer = heappop(self._timers)
            if timer.action:
                action, timer.action = timer.action, None
                action()
            else:
                self._cancelled -= 1

    def _step(self, task: Task, cause: object) -> None:
        self.current = task
        try:
            if task.cancelled:
                task.cancelled = False
                task.wanted = task.coro.throw(Cancelled())
            else:
                task.wanted = task.coro.send(cause)
            return
        except (StopIteration, Cancelled):
            pass
        except Exception as error:  # noqa: BLE001
            report(error)
        finally:
            self.current = None
        task.done, task.wanted = True, None
        for waiter in task.waiters:
            waiter.fire()

    def _watch(self, fd: int, side: int, wait: Wait) -> None:
        known = fd in self._readers or fd in self._writers
        (self._readers if side == READ else self._writers)[fd] = wait
        if known:
            self._epoll.modify(fd, READ | WRITE)
        else:
            self._epoll.register(fd, side)

    def _unwatch(self, fd: int, side: int) -> None:
        (self._readers if side == READ else self._writers).pop(fd, None)
        try:
            if fd in self._readers:
                self._epoll.modify(fd, READ)
            elif fd in self._writers:
                self._epoll.modify(fd, WRITE)
            else:
                self._epoll.unregister(fd)
        except OSError:
            pass  # closed meanwhile: the kernel forgot it already


class Lock:
    """Lets one coroutine at a time through, in order of arrival."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._held = False
        self._queue: list[Wait] = []

    async def __aenter__(self) -> None:
        if self._held:
            wait = Wait(self._loop)
            self._queue.append(wait)
            await wait
        self._held = True

    async def __aexit__(self, *error: object) -> None:
        self._held = False
        while self._queue:
            wait = self._queue.pop(0)
            if wait.task:
                self._held = True
                wait.fire()
                return


def report(error: BaseException) -> None:
    """Prints an unexpected error where the Pod's log shows it."""
    import sys
    import traceback

    traceback.print_exception(error, file=sys.stderr)
