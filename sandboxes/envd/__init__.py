"""envd: the small daemon inside every sandbox. It speaks the E2B daemon protocol and needs the standard library only.

The folder is mounted alone into Pods as package `envd`, so its imports are relative. Thousands of envds start on few
cores, therefore modules on the start path avoid the slow part of the standard library: asyncio alone costs 120 ms of
CPU, more than the whole bar of design section 4 for a start, and even `signal`, `socket` and `json` cost 25 ms more.
So the C modules beneath them are used (`_signal`, `_socket`, `_json`), and everything else is imported when needed.
"""

VERSION = "0.5.7"
"""The E2B daemon version reported to clients: it switches SDK features on (reference e2b-protocol.md 1.4)."""
