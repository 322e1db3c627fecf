"""Invariants of checks and receipts. They hold after every test of turns and goals."""

import json
from typing import Any

SUBJECTS = {
    "todo": "SELECT tenant_id, id, checks, proof, status = 'completed' FROM todos WHERE checks <> '' OR proof <> 'none'",
    "sub_goal": "SELECT tenant_id, id, checks, proof, divergence IS NOT NULL FROM sub_goals WHERE checks <> '' OR proof <> 'none'",
    "goal": "SELECT tenant_id, id, checks, proof, status = 'completed' FROM goals WHERE checks <> '' OR proof <> 'none'",
}
RECEIPTS = "SELECT ok, results, override FROM receipts WHERE tenant_id = ? AND subject = ? AND subject_id = ? ORDER BY id DESC"


def check_proofs(database: Any) -> None:
    """Check that whatever is done and has checks has a proof that its receipts support."""
    for kind, sql in SUBJECTS.items():
        for tenant_id, number, checks, proof, is_done in database.read(lambda tx, sql=sql: tx.all(sql)):
            key = tenant_id, kind, number
            receipts = database.read(lambda tx, key=key: tx.all(RECEIPTS, *key))
            assert (proof == "none") == (not checks), (key, proof)
            if proof == "proven":
                ok, results, _ = receipts[0]
                assert ok, key
                assert [result["check"] for result in json.loads(results)] == json.loads(checks), key
            if proof == "overridden":
                assert any(override for _, _, override in receipts), key
            if proof == "broken":
                assert any(not ok for ok, _, _ in receipts), key
            if is_done and checks:
                assert proof != "unproven", f"{key} is done, and nothing says that its checks passed"
