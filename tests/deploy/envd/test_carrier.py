"""The image that carries the pack."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

from deploy.envd.carrier import carrier


def test_the_carrier_holds_the_pack_with_its_modes_and_installs_it(pack: Path) -> None:
    made = carrier(pack)
    assert made.manifest.digest == carrier(pack).manifest.digest
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(made.layers[0].data))) as tar:
        found = {entry.name: entry for entry in tar}
    assert found["opt/agentbox/bin/envd"].mode == 0o755
    files = {name for name, entry in found.items() if entry.isfile()}
    assert files == {f"opt/agentbox/{path.relative_to(pack)}" for path in pack.rglob("*") if path.is_file()}
    assert json.loads(made.config.data)["config"]["Entrypoint"] == ["/opt/agentbox/bin/envd", "install"]
