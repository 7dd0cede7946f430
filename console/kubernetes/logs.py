"""The components talk too much for a terminal: their lines go to files, a person sees the start and what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from console.up.screen import OWN, Screen

LARGEST = 20 * 2**20
"""Bytes of one file; the one before it is kept as well."""


class Logs(Screen):
    def __init__(self, names: list[str], folder: Path) -> None:
        super().__init__(names)
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.files: dict[str, IO[str]] = {name: self.open(name) for name in names}

    def open(self, name: str) -> IO[str]:
        file = self.folder / f"{name}.log"
        if file.exists():
            file.rename(self.folder / f"{name}.log.1")
        return file.open("w", buffering=1)

    def line(self, name: str, text: str, style: str = "") -> None:
        if name == OWN:
            super().line(name, text, style)
            return
        self.files[name].write(text.rstrip() + "\n")
        if self.files[name].tell() > LARGEST:
            self.files[name].close()
            self.files[name] = self.open(name)
