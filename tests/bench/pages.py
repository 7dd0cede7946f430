"""The list of sandboxes with very many rows. They belong to a cluster that nobody watches, so nobody ends them."""

from __future__ import annotations

import re
import time

import aiohttp

from tests.stack import Stack

from .table import Row, percentile, show

LIVE, ENDED = 12_000, 100_000
REPEATS = 30
PATH = "/t/rl-research/sandboxes/"
FAR = """
    INSERT INTO pools_cluster
        (name, kubeconfig, namespace, uid, cordoned, create_rate, tokens, lease_fence, failures, failure)
    VALUES ('far', '', 'agentbox', '', true, 1, 0, 0, 0, '')
"""
ROWS = """
    INSERT INTO sandboxes_sandbox
        (id, team_id, group_id, pool_id, cluster_id, state, image, created_at, starting_at, idle_at, claimed_at,
         delivered_at, end_at, ended_at, end_reason, end_actor, shelf, node, pod_ip, claim_id, metadata)
    SELECT 'i' || lpad(to_hex(number + %(first)s), 20, '0'), team.id, scaling.id, pool.id, far.id, %(state)s::text,
        env.image, made, made, made, made, made, now() + interval '1 day',
        CASE WHEN %(state)s::text = 'ended' THEN made + interval '60 s' END,
        CASE WHEN %(state)s::text = 'ended' THEN 'killed' ELSE '' END, '',
        CASE WHEN %(state)s::text = 'ended' THEN made + interval '60 s' ELSE timestamptz '9999-12-31 00:00:00+00' END,
        'node-' || number %% 40, '127.64.0.1', number + %(first)s, '{}'
    FROM generate_series(1, %(count)s) number
    CROSS JOIN LATERAL (SELECT now() - interval '10 min' - number * interval '0.1 s' AS made) AS life
    JOIN pools_env env ON env.name = 'base' JOIN pools_team team ON team.id = env.team_id
    JOIN pools_scalinggroup scaling ON scaling.env_id = env.id AND scaling.name = 'large'
    JOIN pools_pool pool ON pool.group_id = scaling.id
    JOIN pools_cluster far ON far.name = 'far'
"""


async def measure(stack: Stack) -> None:
    fill(stack)
    demo = stack.demo()
    async with aiohttp.ClientSession(demo["AGBX_URL"]) as session:
        await sign_in(session, demo)
        first = [await timed(session, PATH) for _ in range(REPEATS)]
        ended = [await timed(session, f"{PATH}?state=ended") for _ in range(REPEATS)]
    rows = [
        Row("list, p95", 1000 * percentile(first, 95), 300.0),
        Row("list of ended ones, p95", 1000 * percentile(ended, 95), 300.0),
    ]
    show(f"The list page at {LIVE} live and {ENDED} ended sandboxes, {REPEATS} loads each", rows)


def fill(stack: Stack) -> None:
    stack.execute("UPDATE pools_scalinggroup SET max_replicas = 0, min_idle = 0 WHERE name = 'large'")
    stack.execute(FAR)
    stack.execute(ROWS, {"first": 0, "count": LIVE, "state": "claimed"})
    stack.execute(ROWS, {"first": LIVE, "count": ENDED, "state": "ended"})
    stack.execute("ANALYZE")


async def sign_in(session: aiohttp.ClientSession, demo: dict[str, str]) -> None:
    async with session.get("/sign-in") as page:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', await page.text())
    assert token, "the sign-in page has no form"
    form = {"csrfmiddlewaretoken": token[1], "username": demo["AGBX_USER"], "password": demo["AGBX_PASSWORD"]}
    async with session.post("/sign-in", data=form, headers={"Referer": demo["AGBX_URL"]}) as answer:
        assert answer.ok, answer.status


async def timed(session: aiohttp.ClientSession, path: str) -> float:
    began = time.perf_counter()
    async with session.get(path) as page:
        await page.read()
        assert page.status == 200, f"{path}: {page.status}"
    return time.perf_counter() - began
