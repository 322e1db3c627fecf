"""A script that keeps its work in the ledger: dependencies, a check before "done", and what can start now.

python examples/ledger_script.py
"""

from headway import CheckFailed, sync

with sync.open() as headway:
    draft = headway.todos.add("write the draft")
    reviewed = headway.todos.add(
        "review the draft",
        depends_on=[draft.id],
        checks=[{"kind": "outcome", "schema": {"type": "string", "minLength": 10}}],
    )
    print("ready:", *(todo.subject for todo in headway.todos.ready()))
    headway.todos.complete(draft.id, "two pages")
    print("ready:", *(todo.subject for todo in headway.todos.ready()))
    try:
        headway.todos.complete(reviewed.id, "ok")
    except CheckFailed as refusal:
        print("refused:", refusal.failures[0]["check"])
    done = headway.todos.complete(reviewed.id, "three typos corrected")
    print("done:", done.proof)
