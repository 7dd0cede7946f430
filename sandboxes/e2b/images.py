"""Another image for a bound sandbox: its Pod gets it in place, before the sandbox is armed.

The edge process that holds the caller does it, because it alone knows whether, and until when, somebody waits; a claim
needs no new state for it. It reads the one Pod again and again instead of the watcher's picture: a Pod with another
image is rare beside plain claims, and an answer as old as the request would be no answer. A few threads of its own do
the calls, so that neither a slow cluster nor many such claims hold up the others.

What holds in Kubernetes (kubelet 1.34): a changed image replaces the running container whatever the restart policy; the
Pod keeps its name, address and volumes. Its status says nothing until the new container runs, which another
`containerID` shows. If the image cannot be pulled, a Pod that restarts waits with the registry's words in its status;
one that never does ends as if by itself, and the words are in its events only. So both are looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from sandboxes import claims, times
from sandboxes.cluster import client
from sandboxes.cluster.errors import ClusterError, Gone, NotAllowed, Rejected
from sandboxes.cluster.snapshot import PodSnapshot
from sandboxes.diagnosis import CONFIG, IMAGE, ending
from sandboxes.matcher import Bound
from sandboxes.serving.database import Database

from .answers import Refusal, try_again
from .call import CallerGone

THREADS = 4
PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks at a Pod: short at first, for images that the node has."""
NOT_USABLE = "image_not_usable"
NOT_READY = "image_not_ready"
NOT_POSSIBLE = "image_not_possible"
STUCK = IMAGE | CONFIG | {"CrashLoopBackOff"}
LOOKS, LOOKS_FOR_LOST = 20, 10
"""A kubelet's events come a little after the status that they explain: they are waited for, five seconds at most for a
Pod that ended by itself, and one for a Pod that somebody deletes."""


class Images:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(THREADS, "edge-image")

    async def change(self, bound: Bound, image: str, gone: asyncio.Future[Any], until: float) -> str:
        """Nothing when the sandbox's Pod runs `image` and is ready, else what is wrong with this sandbox.

        Raises Refusal when the image is at fault or did not come until `until` (loop time), CallerGone.
        """
        left = max(0.0, until - asyncio.get_running_loop().time())
        place = await self._database.run(claims.change_image, bound, image, left + times.ARM_LIMIT)
        if place is None:
            return "it was lost while it was prepared"
        if place.image == image:
            return ""
        try:
            api = await self._call(client.connect, place.kubeconfig, place.namespace)
            before = await self._call(api.patch_image, place.pod, image)
            return await self._ready(api, before, image, gone, until)
        except NotAllowed as error:
            raise not_possible(error.message) from error
        except Rejected as error:
            raise not_usable(image, error.message) from error
        except ClusterError as error:
            return error.message

    async def _ready(
        self, api: client.ClusterClient, before: PodSnapshot, image: str, gone: asyncio.Future[Any], until: float
    ) -> str:
        pause = PAUSE
        while await patient(gone, until, pause):
            pause = min(pause * 1.2, LONGEST_PAUSE)
            pod = await self._look(api, before)
            if pod is None or pod.deleting or pod.reason:
                await self._blame(api, before, image)
                return f"its Pod does not stay ({ending(pod) if pod else 'it has gone'})"
            if pod.finished:
                words = await self._said(api, pod, LOOKS)
                raise not_usable(image, words or f"its container has ended ({ending(pod)})")
            if pod.waiting_reason in STUCK:
                raise not_usable(image, pod.waiting_message or pod.waiting_reason)
            if pod.ready and pod.container_id != before.container_id:
                return ""
        raise not_ready(image)

    async def _look(self, api: client.ClusterClient, before: PodSnapshot) -> PodSnapshot | None:
        """The Pod now, None if it has gone; as it was, when the cluster does not answer just now. Raises Rejected."""
        try:
            return await self._call(api.read, before.name)
        except Gone:
            return None
        except Rejected:
            raise
        except ClusterError:
            return before

    async def _blame(self, api: client.ClusterClient, pod: PodSnapshot, image: str) -> None:
        """A Pod that ended for its image is soon deleted, and another would end like it. Raises Refusal."""
        words = await self._said(api, pod, LOOKS_FOR_LOST)
        if f'"{image}"' in words:
            raise not_usable(image, words)

    async def _said(self, api: client.ClusterClient, pod: PodSnapshot, looks: int) -> str:
        """A kubelet's words about a container that did not start, "" if there are none."""
        with suppress(ClusterError):
            for look in range(looks):
                if words := await self._call(api.why_not_started, pod.uid):
                    return words
                await asyncio.sleep(PAUSE * 1.15**look)
        return ""

    async def _call[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def patient(gone: asyncio.Future[Any], until: float, seconds: float) -> bool:
    """Wait; False when the time is up. Raises CallerGone as soon as nobody waits any more."""
    left = until - asyncio.get_running_loop().time()
    if left <= 0:
        return False
    await asyncio.wait({gone}, timeout=min(seconds, left))
    if gone.done():
        raise CallerGone
    return True


def not_usable(image: str, words: str) -> Refusal:
    return Refusal(400, f"The image {image} cannot be used: {words}", error_code=NOT_USABLE)


def not_possible(words: str) -> Refusal:
    text = f"Claims with an image of their own do not work here until an operator mends this: {words}"
    return Refusal(500, text, error_code=NOT_POSSIBLE)


def not_ready(image: str) -> Refusal:
    """Worth another try: by then the node may have the image."""
    text = f"The image {image} was not running in time; nothing was kept. Give the claim longer: startup-timeout."
    return try_again(text, error_code=NOT_READY)
