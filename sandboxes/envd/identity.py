"""Acting as the request's user while envd itself stays root.

Linux keeps credentials per thread; the C library only makes them look process-wide. The bare system calls therefore let
one thread open files or spawn a command with exactly a user's rights and groups, and come back: no helper process, no
fork of the interpreter (a fork costs 3.1 ms, the spawn that this keeps possible 0.9 ms), and no file work of a user's
ever done with root's rights. Nothing is imported meanwhile: the interpreter's own files may be closed to the user.
"""

from __future__ import annotations

import os

from .errors import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .accounts import Account

_SYSCALLS = {"x86_64": (116, 117, 119), "aarch64": (159, 147, 149)}
"""Numbers of setgroups, setresuid and setresgid."""
_KEEP = -1
_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_LOST_IDENTITY = 70


class _Kernel:
    """The bare calls, loaded on first use: ctypes costs 5 ms."""

    def __init__(self) -> None:
        import ctypes

        self.library = ctypes.CDLL(None, use_errno=True)
        self._ctypes = ctypes
        self._numbers = _SYSCALLS.get(os.uname().machine)

    def ids(self, real: int, effective: int, saved: int) -> None:
        self._call(1, real, effective, saved)

    def group_ids(self, real: int, effective: int, saved: int) -> None:
        self._call(2, real, effective, saved)

    def groups(self, groups: tuple[int, ...]) -> None:
        array = (self._ctypes.c_uint32 * len(groups))(*groups)
        self._call(0, len(groups), self._ctypes.addressof(array), 0)

    def parent_signal(self) -> int:
        """The signal that the parent's death sends us, 0 for none."""
        number = self._ctypes.c_int()
        self.library.prctl(_PR_GET_PDEATHSIG, self._ctypes.byref(number))
        return number.value

    def _call(self, which: int, *arguments: int) -> None:
        if self._numbers is None:
            raise OSError(38, "users cannot be switched on this kind of machine")
        long = self._ctypes.c_long
        if self.library.syscall(long(self._numbers[which]), *(long(each) for each in arguments)) != 0:
            code = self._ctypes.get_errno()
            raise OSError(code, os.strerror(code))


_kernel: _Kernel | None = None
_hidden = False
_parent_signal: int | None = None
_own = (os.geteuid(), os.getegid(), tuple(os.getgroups()))
_usable: dict[int, str] = {}
"""User ids tried so far: empty when they work, else the reason why not."""


def kernel() -> _Kernel:
    global _kernel
    if _kernel is None:
        _kernel = _Kernel()
    return _kernel


class acting_as:
    """`with acting_as(account):` gives this thread the account's rights.

    `wholly` sets the real ids too, as a spawned command needs; file work leaves them: users cannot signal the thread.
    """

    def __init__(self, account: Account, wholly: bool = False) -> None:
        self._account = account
        self._real = (account.uid, account.gid) if wholly else (_KEEP, _KEEP)
        self._switch = account.uid != _own[0]
        self._main_thread = wholly
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        if not self._switch:
            return
        if self._main_thread:
            _remember_parent_signal()
        do, account = kernel(), self._account
        steps: tuple[tuple[Callable[[], None], Callable[[], None]], ...] = (
            (lambda: do.groups(account.groups), lambda: do.groups(_own[2])),
            (lambda: do.group_ids(self._real[1], account.gid, _KEEP), lambda: do.group_ids(_own[1], _own[1], _KEEP)),
            (lambda: do.ids(self._real[0], account.uid, _KEEP), lambda: do.ids(_own[0], _own[0], _KEEP)),
        )
        try:
            for step, undo in steps:
                step()
                self._undo.append(undo)
        except OSError:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            while self._undo:
                self._undo.pop()()
        except OSError:
            os._exit(_LOST_IDENTITY)  # going on as somebody else would be worse than a restarted container
        if self._main_thread and _parent_signal:
            kernel().library.prctl(_PR_SET_PDEATHSIG, _parent_signal)


def _remember_parent_signal() -> None:
    """A change of user makes the kernel forget it, and whoever started us may count on it."""
    global _parent_signal
    if _parent_signal is None:
        _parent_signal = kernel().parent_signal()


def require(account: Account) -> Account:
    """The account, if commands and files of it are possible here; RpcError unauthenticated says why not."""
    if account.uid == _own[0]:
        return account
    if account.uid not in _usable:
        _usable[account.uid] = _obstacle(account)
    if _usable[account.uid]:
        raise RpcError("unauthenticated", f"user {account.name!r} cannot be used: {_usable[account.uid]}")
    return account


def _obstacle(account: Account) -> str:
    if _own[0] != 0:
        return f"this sandbox has only the user id {_own[0]}, and {account.name!r} has {account.uid}"
    try:
        with acting_as(account, wholly=True):
            return ""
    except OSError as error:
        return f"the sandbox cannot switch to user id {account.uid} ({(error.strerror or '').lower()})"


def hide_memory() -> None:
    """Keeps commands under envd's own user id from reading its memory, where the tokens are. Root reads it anyway."""
    global _hidden
    if not _hidden and _own[0] != 0:
        kernel().library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _hidden = True


def adopt_orphans() -> None:
    """Makes processes whose parent died ours, as PID 1 has it anyway."""
    kernel().library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
