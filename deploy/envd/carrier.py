"""The image that carries the pack into a Pod: nothing but the pack, and `envd install FOLDER` as what it does."""

from __future__ import annotations

from pathlib import Path

from deploy.oci.image import Image, Layer, image

from .pack import PLACE

NOBODY = "65532:65532"
"""A number, so that Pods which must not run as root may use it."""


def carrier(pack: Path) -> Image:
    layer = Layer()
    layer.folder("opt")
    layer.folder(PLACE.lstrip("/"))
    layer.copy_tree(pack, PLACE.lstrip("/"))
    return image(layer, User=NOBODY, Entrypoint=[f"{PLACE}/bin/envd", "install"])
