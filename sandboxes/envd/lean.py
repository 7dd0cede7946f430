"""The C modules beneath `signal` and `hashlib`: the wrappers cost each start 10 and 5 ms and add nothing used here."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signals
    from hashlib import sha256
else:
    import _signal as signals
    from _sha2 import sha256

__all__ = ["sha256", "signals"]
