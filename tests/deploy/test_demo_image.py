"""The demo's image, as far as it can be tried without the packages (tests/kubernetes runs rollouts in it)."""

from __future__ import annotations

import pytest

from deploy.demo_image import demo_image
from deploy.oci.problem import Problem


def test_without_debian_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Problem, match=r"apt-get install bash .* git .* python3 "):
        demo_image()
