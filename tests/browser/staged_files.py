"""Files as agents of a small company leave them: reports, code, a table and a picture, with several versions."""

from headway.actions.history import files as file_history
from headway.ledger.file_versions import FileOrigin, WrittenFile, WrittenFiles, build_written, describe_data
from headway.storage.transaction import Transaction
from tests.goal_plans import add_begun_goal
from tests.sample_files import PNG
from tests.surfaces.server_harness import Client

REPORT = """# Double charges on 17 November

All **41** failed retries share one cause: the retry runs with a *new* idempotency key.

| error | count |
|---|---|
| 504 | 38 |
| 503 | 3 |

1. Persist the key before the first attempt
2. Back off with jitter
"""
CODE = '''"""Charges an order once, however often it is tried."""

from uuid import uuid4


def charge(order, gateway, store):
    key = uuid4().hex
    return gateway.pay(order.total, idempotency_key=key)


def refund(order, gateway):
    return gateway.refund(order.payment_id)
'''
FIXED = CODE.replace("    key = uuid4().hex\n", "    key = store.get_or_create(order.id, lambda: uuid4().hex)\n").replace(
    "    return gateway.refund(order.payment_id)\n",
    "    if order.refunded:\n        return None\n    return gateway.refund(order.payment_id)\n",
)


def build_changed(path: str, data: bytes, renamed_from: str = "") -> WrittenFile:
    size, sha256, media_type = describe_data(data)
    return WrittenFile(path, "changed", size, sha256, media_type, data, renamed_from)


def stage_files(client: Client) -> dict[str, str]:
    """Record the files, and return their ids by path."""
    conversation = client.conversation(title="Customers were charged twice")

    def fill(tx: Transaction, tenant_id: int) -> dict[str, str]:
        goal = add_begun_goal(tx, tenant_id)
        coder = FileOrigin("write_file", "coder", "run-1", "", goal.id, 0, 0)
        writer = FileOrigin("write_file", "index", "run-2", "", 0, 0, conversation)
        program = FileOrigin("run_command", "coder", "run-3", "", goal.id, 0, 0)
        ids: dict[str, str] = {}

        def put(origin: FileOrigin, *files: WrittenFile, workspace: str = "") -> None:
            recorded = file_history.record_files(tx, tenant_id, workspace, WrittenFiles(files), origin)
            ids.update({file["path"]: file["id"] for file in recorded["files"]})

        put(writer, build_written("old-plan.txt", b"Ask support first.\n"))
        put(program, WrittenFile("old-plan.txt", "deleted"))
        put(writer, build_written("reports/incident.md", REPORT.encode()))
        branch = "billing:headway/goal-1"
        put(coder, build_written("src/billing/charge.py", FIXED.encode(), CODE.encode()), workspace=branch)
        put(program, build_changed("data/failed-jobs.csv", b"id,error\n" + b"".join(b"%d,504\n" % n for n in range(41))))
        put(program, build_changed("charts/retries.png", PNG), build_changed("charts/dump.bin", b"\xff\xfe\x00", "dump.tmp"))
        put(writer._replace(tool="edit_file"), build_written("reports/incident.md", (REPORT + "3. Tell support\n").encode()))
        return ids

    return client.desk.write(fill)
