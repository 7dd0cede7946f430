from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from pools.models import AuditEntry, Pool, Quota
from tests.factories import ago, make_claim, make_decision, make_group, make_pool, make_sandbox, make_team

type SignIn = Callable[[str], Client]


def address(pool: Pool) -> str:
    return f"/t/rl-research/pools/{pool.pk}/"


def sent(pool: Pool, **changes: object) -> dict[str, object]:
    group = pool.group
    bounds = {"min_replicas": group.min_replicas, "max_replicas": group.max_replicas, "min_idle": group.min_idle}
    return {"generation": group.generation, **bounds, **changes}


@pytest.mark.parametrize(
    ("binding", "lead", "kind"),
    [("ceiling", "Not growing: at its ceiling.", "stuck"), ("quota", "Not growing: the quota is used up.", "stuck"),
     ("demand", "Growing.", "working"), ("starting", "Growing as fast as it may.", "working")],
)  # fmt: skip
def test_the_page_opens_with_the_binding_constraint(
    signed_in: SignIn, pool: Pool, binding: str, lead: str, kind: str
) -> None:
    make_claim(pool.group)
    make_decision(pool.group, "floor", age=60)
    make_decision(pool.group, binding, sentence="The decision's own words.")
    html = signed_in("viewer").get(address(pool)).content.decode()
    assert lead in html
    assert "The decision&#x27;s own words." in html
    assert f'data-headline data-kind="{kind}"' in html


def test_held_growth_names_the_cause(signed_in: SignIn, pool: Pool) -> None:
    make_sandbox(pool, "starting", finding="no_room")
    make_decision(pool.group, "held")
    assert "Not growing: no room in the cluster." in signed_in("viewer").get(address(pool)).content.decode()


def test_a_calm_pool_has_a_quiet_sentence(signed_in: SignIn, pool: Pool) -> None:
    make_sandbox(pool, "idle")
    make_decision(pool.group, "none", sentence="At target. 1 claimable.")
    html = signed_in("viewer").get(address(pool)).content.decode()
    assert 'data-kind="ready"' in html
    assert "At target. 1 claimable." in html


def test_a_new_pool_says_when_the_first_decision_comes(signed_in: SignIn, pool: Pool) -> None:
    assert "No decision yet." in signed_in("viewer").get(address(pool)).content.decode()


def test_an_operator_changes_the_bounds_and_the_audit_knows(signed_in: SignIn, pool: Pool) -> None:
    answer = signed_in("operator").post(address(pool), sent(pool, max_replicas=32, min_idle=8), follow=True)
    assert "The new bounds are in force." in answer.content.decode()
    pool.group.refresh_from_db()
    assert (pool.group.max_replicas, pool.group.min_idle, pool.group.generation) == (32, 8, 2)
    assert AuditEntry.objects.get().actor.startswith("user:")


def test_applying_the_same_bounds_changes_nothing_and_says_so(signed_in: SignIn, pool: Pool) -> None:
    answer = signed_in("operator").post(address(pool), sent(pool), follow=True)
    assert "Nothing to change." in answer.content.decode()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("min_replicas", "", "Give a number; 0 is allowed."),
        ("max_replicas", "lots", "“lots” is not a whole number"),
        ("min_idle", "-1", "“-1” is not a whole number"),
        ("min_idle", "1.5", "“1.5” is not a whole number"),
        ("min_replicas", "65", "lower it or raise the ceiling"),
        ("min_idle", "65", "lower it or raise the ceiling"),
        ("max_replicas", "999999999999", "The ceiling must be between"),
        ("max_replicas", "٣", "is not a whole number"),
    ],
)
def test_bad_input_names_the_field_and_the_way_out(
    signed_in: SignIn, pool: Pool, field: str, value: str, says: str
) -> None:
    answer = signed_in("operator").post(address(pool), sent(pool, **{field: value}))
    assert answer.status_code == 422
    html = answer.content.decode()
    assert says in html
    assert f'id="{field}" name="{field}" type="text" inputmode="numeric" value="{value}"' in html
    marked = html.split(f'id="{field}-hint"')[1].split("</p>")[0]
    assert 'role="alert"' in marked
    pool.group.refresh_from_db()
    assert pool.group.generation == 1


def test_a_form_without_its_revision_asks_to_load_again(signed_in: SignIn, pool: Pool) -> None:
    answer = signed_in("operator").post(address(pool), sent(pool, generation="x"))
    assert "load the page again" in answer.content.decode()


def test_concurrent_edits_are_shown_side_by_side_and_then_applied(signed_in: SignIn, pool: Pool) -> None:
    mine = sent(pool, max_replicas=40)
    first, second = signed_in("operator"), signed_in("operator")
    first.post(address(pool), sent(pool, max_replicas=48))
    answer = second.post(address(pool), mine)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "Somebody changed these bounds meanwhile" in html
    assert "It is 48 now; yours is kept here." in html
    assert 'name="generation" value="2"' in html
    second.post(address(pool), mine | {"generation": 2})
    pool.group.refresh_from_db()
    assert pool.group.max_replicas == 40


def test_viewers_read_the_bounds_but_cannot_change_them(signed_in: SignIn, pool: Pool) -> None:
    client = signed_in("viewer")
    html = client.get(address(pool)).content.decode()
    assert "an operator of the team can change them" in html
    assert client.post(address(pool), sent(pool, max_replicas=1)).status_code == 403
    pool.group.refresh_from_db()
    assert pool.group.max_replicas == 64


def test_another_teams_pool_does_not_exist(signed_in: SignIn, pool: Pool) -> None:
    foreign = make_pool(make_group(make_team()))
    assert signed_in("admin").get(address(foreign)).status_code == 404
    assert signed_in("stranger").get(address(pool)).status_code == 404
    assert signed_in("stranger").post(address(pool), sent(pool)).status_code == 404
    assert signed_in("admin").get("/t/rl-research/pools/999999/").status_code == 404


def test_the_effect_on_the_quota_is_shown(signed_in: SignIn, pool: Pool) -> None:
    client = signed_in("viewer")

    def effect(limit: int) -> str:
        Quota.objects.update(max_sandboxes=limit)
        return client.get(address(pool)).content.decode().split('id="quota-effect">')[1].split("<")[0]

    assert effect(100) == "The team&#x27;s quota is 100: 0 live, 100 left."
    assert "the quota stops growth first" in effect(50)
    make_pool(make_group(pool.group.env.team, "2c4g", max_replicas=64))
    assert "All ceilings of the team together allow 128" in effect(100)


def test_the_list_of_pools_has_bars_with_words(signed_in: SignIn, pool: Pool) -> None:
    make_sandbox(pool, "claimed")
    html = signed_in("viewer").get("/t/rl-research/pools/").content.decode()
    assert "1 claimed, 0 idle, 0 starting, 0 stuck, 0 asked for; of 64" in html


def test_the_queries_of_a_pools_page_are_counted(
    signed_in: SignIn, pool: Pool, django_assert_num_queries: Callable
) -> None:
    for _ in range(5):
        make_decision(pool.group)
        make_sandbox(pool)
    client = signed_in("operator")
    with django_assert_num_queries(11):
        client.get(address(pool))


@pytest.mark.parametrize(
    ("binding", "action", "href"),
    [("ceiling", "Raise the ceiling", "#scale"), ("quota", "See who holds the quota", "../")],
)
def test_the_sentence_has_the_link_that_does_something_about_it(
    signed_in: SignIn, pool: Pool, binding: str, action: str, href: str
) -> None:
    make_decision(pool.group, binding)
    assert f'data-action href="{href}">{action}</a>' in signed_in("viewer").get(address(pool)).content.decode()


def test_a_stall_is_said_on_top(signed_in: SignIn, pool: Pool) -> None:
    pool.group.last_pass_at = ago(600)
    pool.group.save()
    assert "worker or beat is not running" in signed_in("viewer").get(address(pool)).content.decode()
