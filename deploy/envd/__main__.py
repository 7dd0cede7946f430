"""`python -m deploy.envd`: makes the pack, or the image that carries it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from deploy.oci.image import save
from deploy.oci.problem import Problem
from deploy.oci.registry import parsed, push

from .carrier import carrier
from .pack import pack, size


def main() -> None:
    options = arguments()
    try:
        options.run(options)
    except Problem as problem:
        sys.exit(str(problem))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.envd", description="Packs envd for any Linux image.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    verb = verbs.add_parser("pack", help="make the folder that belongs at /opt/agentbox")
    verb.add_argument("folder", type=Path)
    verb.set_defaults(run=to_folder)
    verb = verbs.add_parser("push", help="make the image and push it")
    verb.add_argument("name", metavar="REGISTRY/REPOSITORY:TAG")
    verb.set_defaults(run=to_registry)
    verb = verbs.add_parser("save", help="make the image and write it to a tar file (OCI layout)")
    verb.add_argument("name", metavar="REGISTRY/REPOSITORY:TAG")
    verb.add_argument("file", type=Path)
    verb.set_defaults(run=to_file)
    return parser.parse_args()


def to_folder(options: argparse.Namespace) -> None:
    pack(options.folder)
    say(f"{options.folder}: {size(options.folder) / 1e6:.1f} MB")


def to_registry(options: argparse.Namespace) -> None:
    parsed(options.name)  # a wrong name should not cost the time of packing
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        say(push(carrier(Path(folder)), options.name))


def to_file(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        save(carrier(Path(folder)), options.name, options.file)
    say(f"{options.file}: {options.file.stat().st_size / 1e6:.1f} MB")


def say(text: str) -> None:
    print(text)  # noqa: T201


main()
