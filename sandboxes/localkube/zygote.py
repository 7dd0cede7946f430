"""The fork server: one small single-threaded process that makes Pods and runs commands inside them.

Talks JSON datagrams with file descriptors over one socket. Whatever happens to localkube, kill -9 included, that socket
closes and this process ends every Pod; if it is killed itself, the kernel does (parent-death signals; PID 1 takes its
namespace along).
Request: {"do": "start", "exec" or "kill", "id": ...}; when the process has ended: {"id", "code", "oom"}. What fails
before exec is written as a sentence on the first descriptor of the request; its closing without a word is success.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from sandboxes.localkube import cgroups, linux, podroot

Json = dict[str, Any]
OUTSIDE_FIRST, OUTSIDE_COUNT = 200_000, 65_536
MESSAGE_SIZE = 160_000
_HOME = {0: "/root", podroot.USER_ID: "/home/user"}
_REFUSED = (
    "This machine lets {who} make no namespaces ({error}), so Pods are not run: start as root, or allow user "
    "namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 or kernel.unprivileged_userns_clone=1), "
    "or give --unsafe-pods to run them without isolation."
)


@dataclass(frozen=True)
class Ids:
    """Which ids outside the Pods' 0..count-1 are; one id only means that just `user` exists inside."""

    outside: int
    count: int

    @property
    def root(self) -> bool:
        return self.count > 1

    def map(self, pid: int) -> None:
        inside = 0 if self.root else podroot.USER_ID
        linux.write_id_map(pid, inside, self.outside, self.count, groups=self.root)


@dataclass
class Child:
    """`lifeline`: our end of a pipe; its other end tells a child that we are gone."""

    id: str
    pid: int
    lifeline: int
    cgroup: cgroups.Cgroup | None = None
    request: Json = field(default_factory=dict)


class Zygote:
    def __init__(self, control: socket.socket, options: Json, hierarchies: list[cgroups.Hierarchy]) -> None:
        self._control = control
        self._unsafe = bool(options["unsafe"])
        self._mounts = _pairs(options["mounts"])
        self._pods: dict[str, Child] = {}
        self._children: dict[int, Child] = {}
        self._hierarchies = hierarchies
        self._ids = Ids(0, 1)
        self._apart: list[Path] = []
        if not self._unsafe:
            template = podroot.Template(Path(options["base"]), self._mounts, map(Path, options["hidden"]))
            self._ids = enter_own_namespaces()
            self._apart = template.apart()
            template.enter()
            self._try_one()

    def serve(self) -> None:
        wake, signalled = socket.socketpair()
        wake.setblocking(False)
        signalled.setblocking(False)
        signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):  # the closed socket tells when to end
            signal.signal(number, lambda *_: None)
        self._tell({"ready": {"root": self._ids.root, "limits": bool(self._hierarchies)}})
        while True:
            readable, _, _ = select.select([self._control, wake], [], [])
            if wake in readable:
                wake.recv(4096)
            self._reap()
            if self._control in readable and not self._receive():
                return self._end()

    def _receive(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, MESSAGE_SIZE, 8)
        if not data:
            return False
        request = self._bare(json.loads(data)) if self._unsafe else json.loads(data)
        try:
            getattr(self, f"_do_{request['do']}")(request, fds)
        except OSError as error:
            os.write(fds[0], str(error).encode())
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _bare(self, request: Json) -> Json:
        """Without a root of its own a program finds what is mounted where it really is, and its home in our state."""
        if request["do"] == "kill":
            return request
        home = request["bare"]
        variables = {name: self._really(value) for name, value in request["env"].items()}
        argv = [self._really(word) for word in request["argv"]]
        return {**request, "argv": argv, "env": variables | {"HOME": home}, "cwd": home}

    def _really(self, path: str) -> str:
        for source, destination in self._mounts:
            if Path(path).is_relative_to(destination):
                return str(source / Path(path).relative_to(destination))
        return path

    def _do_start(self, request: Json, fds: list[int]) -> None:
        child = self._fork(request, fds, 0 if self._unsafe else linux.POD_NAMESPACES)
        child.cgroup = cgroups.make(self._hierarchies, request["id"], request["limits"]) if self._hierarchies else None
        self._pods[child.id] = child
        if not self._unsafe:
            self._ids.map(child.pid)
        self._let_go(child)

    def _do_exec(self, request: Json, fds: list[int]) -> None:
        pod = self._pods.get(request["pod"])
        if pod is None:
            raise ProcessLookupError("the container is not running")
        child = self._fork(request, fds, 0, None if self._unsafe else pod)
        child.cgroup = pod.cgroup
        self._let_go(child)
        child.cgroup = None  # the Pod's own end counts and removes it

    def _do_kill(self, request: Json, _fds: list[int]) -> None:
        for child in [child for child in self._children.values() if child.id == request["id"]]:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if self._unsafe else os.kill)(child.pid, request["signal"])

    def _fork(self, request: Json, fds: list[int], namespaces: int, inside: Child | None = None) -> Child:
        go, lifeline = os.pipe()
        pid = linux.clone(namespaces)
        if pid == 0:
            os.close(lifeline)
            self._become(request, fds, go, inside)
        os.close(go)
        child = Child(request["id"], pid, lifeline, request=request)
        self._children[pid] = child
        return child

    def _let_go(self, child: Child) -> None:
        try:
            if child.cgroup:
                child.cgroup.add(child.pid)
            os.write(child.lifeline, b"g")
        except OSError:
            os.kill(child.pid, signal.SIGKILL)
            raise

    def _become(self, request: Json, fds: list[int], go: int, inside: Child | None) -> NoReturn:
        """In the child: turn into the container's process. Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            linux.die_with_parent()
            if not os.read(go, 1):
                os._exit(1)
            fds = [_lift(fd) for fd in fds]
            if inside:
                _join(inside.pid, fds)
            elif not self._unsafe:
                self._furnish(request)
            self._execute(request, fds, go)
        except BaseException as error:  # noqa: BLE001 the child must never fall back into the parent's loop
            with contextlib.suppress(OSError):
                os.write(fds[0], str(error).encode())
        os._exit(127)

    def _furnish(self, request: Json) -> None:
        if self._ids.root:
            os.setgroups([])
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        podroot.enter_pod_root(request["host"], request["size"], self._apart, request["scratch"], root=self._ids.root)
        linux.loopback_up()
        socket.sethostname(request["host"])

    def _execute(self, request: Json, fds: list[int], go: int) -> None:
        environment, user = dict(request.get("env", ())), self._user(request)
        environment.setdefault("HOME", _HOME.get(user, "/"))
        if not self._unsafe:
            _drop_powers(request, user, root=self._ids.root)
        linux.die_with_parent()
        if select.select([go], [], [], 0)[0]:
            os._exit(1)  # readable again means closed: the parent died before it could be asked for its death
        os.setsid()
        if request["do"] == "start":
            environment["LISTEN_PID"] = str(os.getpid())
        _place(fds[1:], terminal=bool(request.get("terminal")))
        Path(request["cwd"]).mkdir(parents=True, exist_ok=True)
        os.chdir(request["cwd"])
        try:
            os.execvpe(request["argv"][0], request["argv"], environment)  # noqa: S606 running it is the point
        except OSError as error:
            raise OSError(_not_executed(request["argv"][0], error)) from error

    def _user(self, request: Json) -> int:
        wanted = request.get("user")
        if self._unsafe:
            return os.geteuid()
        if not self._ids.root:
            return podroot.USER_ID
        return 0 if wanted is None else int(wanted)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if child := self._children.pop(pid, None):
                    self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: Child, code: int) -> None:
        os.close(child.lifeline)
        kills = 0
        if self._pods.get(child.id) is child:
            del self._pods[child.id]
            if child.cgroup:
                kills = child.cgroup.out_of_memory_kills()
                child.cgroup.remove()
        self._tell({"id": child.id, "code": _shell_code(code), "oom": kills > 0 and code == -signal.SIGKILL})

    def _tell(self, message: Json) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(json.dumps(message).encode())

    def _end(self) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        for pid in self._children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        cgroups.release(self._hierarchies)

    def _try_one(self) -> None:
        """A first Pod that does nothing: better to find out now what this machine refuses."""
        report, ours = os.pipe()
        request = {"do": "try", "id": "", "host": "try", "size": 1 << 20, "scratch": [], "cwd": "/", "argv": ["true"]}
        child = self._fork(request, [ours], linux.POD_NAMESPACES)
        os.close(ours)
        self._ids.map(child.pid)
        os.write(child.lifeline, b"g")
        problem = os.read(report, 4096).decode()
        os.waitpid(self._children.popitem()[0], 0)
        os.close(report)
        os.close(child.lifeline)
        if problem:
            raise OSError(problem)


def enter_own_namespaces() -> Ids:
    """A mount namespace of our own, and a user namespace too if we are nobody special."""
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):
            os.unshare(os.CLONE_NEWNS)
            return _range_for_root()
    return _unshare_with_subordinates() or _unshare_alone()


def _range_for_root() -> Ids:
    last = max(int(start) + int(count) for start, _, count in _id_lines(Path("/proc/self/uid_map")))
    first = OUTSIDE_FIRST if last >= OUTSIDE_FIRST + OUTSIDE_COUNT else last // 3
    return Ids(first, min(OUTSIDE_COUNT, last - first))


def _id_lines(path: Path) -> list[list[str]]:
    return [line.replace(":", " ").split() for line in path.read_text().splitlines()] if path.exists() else []


def _unshare_with_subordinates() -> Ids | None:
    """Needs newuidmap and a range in /etc/subuid. Our namespace then holds 0 (ourselves) and the range from 1 on."""
    files = {"newuidmap": "/etc/subuid", "newgidmap": "/etc/subgid"}
    ranges = {tool: _subordinates(Path(file)) for tool, file in files.items()}
    count = min(size for _, size in ranges.values())
    if count <= podroot.USER_ID:
        return None
    go, unshared = os.pipe()
    own, outside = {"newuidmap": os.getuid(), "newgidmap": os.getgid()}, os.getpid()
    helper = os.fork()
    if helper == 0:
        os.close(unshared)
        os.read(go, 1)
        commands = [[tool, outside, 0, own[tool], 1, 1, first, count] for tool, (first, _) in ranges.items()]
        os._exit(max(_run([str(word) for word in command]) for command in commands))
    os.unshare(linux.OWN_NAMESPACES)
    os.write(unshared, b"g")
    if os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1]) != 0:
        raise PermissionError("newuidmap or newgidmap failed: check /etc/subuid and /etc/subgid")
    return Ids(1, count)


def _subordinates(path: Path) -> tuple[int, int]:
    names = {str(os.getuid()), os.environ.get("USER", "")}
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        names.add(pwd.getpwuid(os.getuid()).pw_name)
    found = [(int(first), int(count)) for name, first, count in _id_lines(path) if name in names]
    return max(found, key=lambda each: each[1], default=(0, 0))


def _run(command: list[str]) -> int:
    try:
        return abs(subprocess.run(command, check=False, timeout=10).returncode)
    except (OSError, subprocess.TimeoutExpired):
        return 1


def _unshare_alone() -> Ids:
    user, group = os.geteuid(), os.getegid()
    os.unshare(linux.OWN_NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return Ids(0, 1)


def _shell_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _not_executed(program: str, error: OSError) -> str:
    """In the words of runc."""
    why = (error.strerror or str(error)).lower()
    if isinstance(error, FileNotFoundError):
        why = f"stat {program}: {why}" if "/" in program else "executable file not found in $PATH"
    return f'exec: "{program}": {why}'


def _join(pid: int, fds: list[int]) -> None:
    """Enter a Pod's namespaces. The process list only counts for children, so a child goes on and we wait for it."""
    handle = os.pidfd_open(pid)
    os.setns(handle, linux.POD_NAMESPACES)
    os.close(handle)
    child = os.fork()
    if child:
        for fd in fds:
            os.close(fd)
        os._exit(_shell_code(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    linux.die_with_parent()


def _drop_powers(request: Json, user: int, *, root: bool) -> None:
    linux.limit_capabilities(set(request.get("capabilities", ())))
    if root:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _lift(fd: int) -> int:
    """Move a received descriptor out of the way of 0, 1, 2 and 3; it came without the close-on-exec flag."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    return copy


def _place(fds: list[int], *, terminal: bool) -> None:
    """Log or stream descriptors become 0, 1, 2; a listening socket becomes 3, as systemd hands one over."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _pairs(mounts: list[list[str]]) -> list[tuple[Path, Path]]:
    return [(Path(source), Path(destination)) for source, destination in mounts]


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    options = json.loads(sys.argv[2])
    linux.die_with_parent(signal.SIGTERM)
    if os.getppid() != options["parent"]:
        return
    hierarchies = cgroups.claim(options["name"])
    try:
        zygote = Zygote(control, options, hierarchies)
    except OSError as error:
        cgroups.release(hierarchies)
        who = "root" if os.geteuid() == 0 else "an ordinary user"
        control.send(json.dumps({"refused": _REFUSED.format(who=who, error=error)}).encode())
        return
    zygote.serve()


if __name__ == "__main__":
    main()
