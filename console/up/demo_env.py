"""`var/demo.env`, and the same facts for people: where it is, how to sign in, what to run."""

from __future__ import annotations

import shlex
from pathlib import Path

from .checks import write_private
from .options import Options

USER = "admin"


def values(options: Options) -> dict[str, str]:
    """The seed left the password and the demo key in `var/` (console.management.commands.seed)."""
    key = (options.var / "demo_key").read_text().strip()
    return {
        "AGBX_URL": options.web_url,
        "AGBX_USER": USER,
        "AGBX_PASSWORD": (options.var / "admin_password").read_text().strip(),
        "AGBX_API_KEY": key,
        "E2B_API_KEY": key,
        "E2B_API_URL": options.edge_url,
        "E2B_SANDBOX_URL": options.edge_url,
        "KUBECONFIG": options.people_kubeconfig,
    }


def write(options: Options) -> Path:
    file = options.var / "demo.env"
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in values(options).items()]
    write_private(file, "".join(lines))
    return file


def summary(options: Options) -> str:
    known = values(options)
    file = shown(options.var / "demo.env")
    return f"""
  AgentBox is ready.   Ctrl-C stops it; the data stays in {shown(options.var)}.

    Console   {known["AGBX_URL"]}   sign in as {known["AGBX_USER"]} / {known["AGBX_PASSWORD"]}
    E2B API   {known["E2B_API_URL"]}   key {known["E2B_API_KEY"]}

  In another terminal:

    set -a; . {file}; set +a
    .venv/bin/python docs/examples/rollout.py          # 200 episodes, 64 in flight
    kubectl get pods                                   # the same sandboxes, seen by Kubernetes

  Or in your own code, with the e2b package as published:

    from e2b import Sandbox
    with Sandbox.create("base") as sandbox:
        print(sandbox.commands.run("echo hello").stdout)
"""


def shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
