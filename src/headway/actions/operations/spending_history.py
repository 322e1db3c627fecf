"""What agents spent over days, by model, role or goal."""

from datetime import date, timedelta
from functools import reduce
from typing import Any, Final

from headway.actions.spending import encode_total
from headway.ledger.run import SpendingGroup
from headway.ledger.text import to_one_line
from headway.storage.stores.operations import spending_days
from headway.storage.stores.operations.spending_days import DAY_MS
from headway.storage.stores.spending import SpendingTotal
from headway.storage.transaction import Transaction

MOST_DAYS: Final = 366
MOST_GROUPS: Final = 8  # the others are one group
OTHERS: Final = "\0"  # the name of that group until it is encoded, which no model, role or goal has
LABEL_LIMIT: Final = 80
EPOCH: Final = date(1970, 1, 1)


def build_history(tx: Transaction, tenant_id: int, days: int, group: SpendingGroup) -> dict[str, Any]:
    """Return the totals of each day up to today, for the groups that cost the most and for all others together."""
    today = tx.now // DAY_MS
    rows = spending_days.list_days(tx, tenant_id, group, today - days + 1)
    totals: dict[str, SpendingTotal] = {}
    for _, total in rows:
        totals[total.name] = totals.get(total.name, SpendingTotal(total.name)).merge(total)
    ranked = sorted(totals.values(), key=lambda total: (-total.cost, -total.input_tokens, total.name))
    kept = {total.name for total in ranked[:MOST_GROUPS]}
    by_day: dict[tuple[int, str], SpendingTotal] = {}
    for day, total in rows:
        name = total.name if total.name in kept else OTHERS
        by_day[day, name] = by_day.get((day, name), SpendingTotal(name)).merge(total)
    labels = list_labels(tx, tenant_id, group, kept)
    groups, others = ranked[:MOST_GROUPS], ranked[MOST_GROUPS:]
    if others:
        groups.append(reduce(SpendingTotal.merge, others, SpendingTotal(OTHERS)))
    return {
        "by": group,
        "first_day": format_day(today - days + 1),
        "last_day": format_day(today),
        "total": {**encode_group(reduce(SpendingTotal.merge, ranked, SpendingTotal(OTHERS))), "label": "all"},
        "groups": [{**encode_group(total), "label": labels.get(total.name, total.name)} for total in groups],
        "rows": [{"day": format_day(day), **encode_group(total)} for (day, _), total in sorted(by_day.items())],
    }


def encode_group(total: SpendingTotal) -> dict[str, Any]:
    """Return the totals of a group. The name is null for all groups that are not named."""
    return {**encode_total("name", total), "name": None if total.name == OTHERS else total.name}


def list_labels(tx: Transaction, tenant_id: int, group: SpendingGroup, names: set[str]) -> dict[str, str]:
    """Return what people call the groups that are not called by their names."""
    labels = {OTHERS: "all others"}
    if group == "goal":
        goal_ids = sorted(int(name) for name in names if name != "0")
        texts = spending_days.list_goal_descriptions(tx, tenant_id, goal_ids)
        labels |= {str(goal_id): to_one_line(texts.get(goal_id, f"Goal {goal_id}, deleted"))[:LABEL_LIMIT] for goal_id in goal_ids}
        labels["0"] = "without a goal"
    return labels


def format_day(day: int) -> str:
    return (EPOCH + timedelta(days=day)).isoformat()
