"""What this sandbox is: who may call, as whom, with which variables, until when. `POST /init` sets it."""

from __future__ import annotations

import os

from . import accounts, identity, paths
from .errors import RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .accounts import Account

_DEFAULT_USER = "user"
_GIVEN = "ENVD_VAR_"
"""Variables of the Pod that commands get, without this prefix: none of them (LD_PRELOAD, PYTHONHOME) changes envd."""
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Sandbox:
    def __init__(self, bootstrap_sha256: str, margin: float, search_path: str, given: dict[str, str]) -> None:
        self.bootstrap_sha256 = bootstrap_sha256
        """Hex SHA-256 of the token that `/init` wants; empty leaves `/init` open (local tests)."""
        self.margin = margin
        """Seconds between the deadline and the end of everything, if nobody came before."""
        self.search_path = search_path or _DEFAULT_PATH
        self.given = given
        """Variables of every command that the Pod was made with; those of a claim win over them."""
        self.variables: dict[str, str] = {}
        self.access_token = ""
        self.default_user = _DEFAULT_USER
        self.default_workdir = ""
        self.deadline: float | None = None

    @property
    def unarmed(self) -> bool:
        """Started for a claim that has not come yet: whoever calls now must not leave anything behind for it."""
        return bool(self.bootstrap_sha256) and not self.access_token

    def account(self, name: str = "") -> Account:
        """The account for a request that names a user, or the default one.

        Without a name the account envd runs under stands in for a default user that is missing or cannot be used.
        """
        if name:
            return identity.require(accounts.find(name))
        try:
            return identity.require(accounts.find(self.default_user))
        except RpcError:
            return accounts.own(self.default_user)

    def environment(self, account: Account, extra: dict[str, str]) -> dict[str, str]:
        """A command's variables, made from nothing: none of envd's own reach it."""
        fixed = {"PATH": self.search_path, "HOME": account.home, "USER": account.name, "LOGNAME": account.name}
        return {**fixed, **self.given, **self.variables, **extra}

    def workdir(self, account: Account) -> str:
        return self.default_workdir or account.home

    def folder(self, account: Account, wanted: str) -> str:
        """Where a command starts. Only the default may be replaced by the root when it does not exist."""
        if wanted:
            return paths.resolve(wanted, account, self.default_workdir)
        folder = self.workdir(account)
        return folder if os.path.isdir(folder) else "/"


def from_environment() -> Sandbox:
    """Takes and removes envd's own settings from the process's variables."""
    bootstrap = os.environ.pop("ENVD_BOOTSTRAP_SHA256", "").strip().lower()
    margin = float(os.environ.pop("ENVD_DEADLINE_MARGIN", "") or 30)
    given = {name.removeprefix(_GIVEN): os.environ.pop(name) for name in [*os.environ] if name.startswith(_GIVEN)}
    return Sandbox(bootstrap, margin, os.environ.get("PATH", ""), given)
