"""Edge processes, envd processes and a world around them, for the tests of the edge."""

from tests.sandboxes.edge_fixtures import shared_edge, stand_in, start_daemon, start_edge, world

__all__ = ["shared_edge", "stand_in", "start_daemon", "start_edge", "world"]
