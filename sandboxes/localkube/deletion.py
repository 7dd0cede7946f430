"""When and how an object goes: its grace, its marks, its finalizers. Pure."""

import time
from calendar import timegm

from sandboxes.localkube.objects import Json, timestamp

_FORM = "%Y-%m-%dT%H:%M:%SZ"


def grace(pod: Json, wanted: int | None) -> int:
    """Seconds that a Pod still has: nothing if nothing of it runs, and once told it is never given more."""
    if not pod["spec"].get("nodeName") or pod["status"]["phase"] in ("Succeeded", "Failed"):
        return 0
    own = pod["spec"]["terminationGracePeriodSeconds"]
    given: int = own if wanted is None else wanted
    given = 1 if given < 0 else given
    told: int | None = pod["metadata"].get("deletionGracePeriodSeconds")
    return given if told is None else min(told, told if wanted is None else given)


def mark(item: Json, seconds: int) -> bool:
    """Write on the object that it goes, counted from when that was first asked; False if that stood there already."""
    meta = item["metadata"]
    told = meta.get("deletionGracePeriodSeconds")
    if told == seconds:
        return False
    now = int(time.time())
    asked = now if told is None else timegm(time.strptime(meta["deletionTimestamp"], _FORM)) - told
    meta |= {"deletionTimestamp": timestamp(max(0, asked + seconds - now)), "deletionGracePeriodSeconds": seconds}
    return True


def may_go(item: Json) -> bool:
    """Its time is over and nobody holds it."""
    meta = item["metadata"]
    return meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")
