"""The stub of simulated Pods' daemons, used by itself."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from sandboxes.localkube.stub import Stub


def test_it_answers_at_every_address_until_it_is_closed() -> None:
    stub, urls = Stub(), []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            urls.append(f"http://127.0.0.1:{listener.getsockname()[1]}/health")
            stub.add(urls[-1], listener)
    assert [urllib.request.urlopen(url, timeout=5).status for url in urls] == [204, 204]
    stub.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(urls[0], timeout=5)
