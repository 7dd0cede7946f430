"""Any amount of output costs bounded memory."""

from __future__ import annotations

import time

from tests.sandboxes.envd.daemon import Daemon, read_until, start_request, until

MIB = 1 << 20
BOUND = 48 * MIB


def drain(envd: Daemon, size: int) -> tuple[int, int]:
    """Reads a command's stream to its end; bytes received and the most memory envd had meanwhile."""
    received = most = looked = 0
    tail = b""
    with envd.open() as connection:
        connection.sendall(start_request("head", "-c", str(size), "/dev/zero"))
        buffer = bytearray(MIB)
        while not tail.endswith(b"0\r\n\r\n"):
            count = connection.recv_into(buffer)
            assert count
            received += count
            tail = (tail + bytes(buffer[max(0, count - 8) : count]))[-8:]
            if received - looked > 32 * MIB:
                most, looked = max(most, envd.memory()), received
    return received, most


def test_any_amount_of_output_is_delivered_in_bounded_memory(envd: Daemon) -> None:
    received, most = drain(envd, 256 * MIB)
    assert received > 256 * MIB * 4 // 3
    assert most < BOUND


def test_a_client_that_does_not_read_holds_the_command_and_costs_little(envd: Daemon) -> None:
    with envd.open() as connection:
        connection.sendall(start_request("sh", "-c", "head -c 300000000 /dev/zero; echo over >&2", tag="held"))
        read_until(connection, b'"stdout"')
        time.sleep(0.3)  # the time in which an unbounded queue would grow
        assert envd.memory() < BOUND
        assert envd.request("GET", "/health").status == 204
        assert any(each.get("tag") == "held" for each in envd.call("process.Process/List").json["processes"])


def test_output_that_nobody_reads_does_not_block_the_command(envd: Daemon, work: str) -> None:
    with envd.open() as connection:
        script = f"sleep 0.2; head -c 50000000 /dev/zero; echo done > {work}/mark"
        connection.sendall(start_request("sh", "-c", script))
        read_until(connection, b'"pid"')
    until(lambda: envd.request("GET", f"/files?path={work}/mark").body == b"done\n")
    assert envd.memory() < BOUND
