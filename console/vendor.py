"""Third-party front-end files: unchanged, and nothing of ours reaches out of the machine.

`python -m console.vendor` checks (make check, tests); `--write` records the hashes after a change of static/vendor/.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static" / "vendor"
LOCK = VENDOR / "vendor.lock.json"
OURS = [("templates", "*.html"), ("static/js", "*.js"), ("static/css", "*.css")]
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)
FORBIDDEN = re.compile(
    r"\bhx-on\b|\bhx-vals=[\"']js:|\son[a-z]+=[\"']|<style|\sstyle=|<script>|javascript:", re.IGNORECASE
)


def hashes() -> dict[str, str]:
    """SHA-256 of each vendored file, by its path under static/vendor/."""
    files = sorted(path for path in VENDOR.rglob("*") if path.is_file() and path != LOCK)
    return {str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def problems() -> list[str]:
    """One sentence for each file that is not as it should be."""
    return [*_changed(), *_unlicensed(), *_wrong_lines()]


def _changed() -> list[str]:
    locked, found = json.loads(LOCK.read_text()), hashes()
    return [
        f"static/vendor/{name}: {'differs from' if name in locked and name in found else 'is not in both folder and'} "
        f"{LOCK.name}; restore it, or run `python -m console.vendor --write` if the change is meant."
        for name in sorted(locked.keys() | found.keys())
        if locked.get(name) != found.get(name)
    ]


def _unlicensed() -> list[str]:
    folders = [path for path in VENDOR.iterdir() if path.is_dir()]
    return [f"static/vendor/{path.name}: has no licence file." for path in folders if not list(path.glob("LICEN*"))]


def _wrong_lines() -> list[str]:
    found = []
    for path in (path for folder, pattern in OURS for path in sorted((ROOT / folder).rglob(pattern))):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if ADDRESS.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: names an address outside; vendor the file instead.")
            if path.suffix == ".html" and FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: inline script or style; the CSP refuses it.")
    return found


def main(arguments: list[str]) -> int:
    if "--write" in arguments:
        LOCK.write_text(json.dumps(hashes(), indent=2) + "\n")
    wrong = problems()
    sys.stdout.write("".join(f"{line}\n" for line in wrong) or "Vendored files are as recorded.\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
