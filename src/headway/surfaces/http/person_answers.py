"""The decisions and answers of people that chat front ends send to continue a turn that waits for them."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from headway.actions.runs import inbox
from headway.actions.runs.inbox import ApprovalDecision
from headway.actions.todos import finding
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.events import to_json
from headway.ledger.inbox import REQUEST_KINDS, PersonRequest, RequestKind
from headway.ledger.text import MAX_INTEGER
from headway.storage.transaction import Transaction
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.turn_events import ItemKey

ABANDONED_REASON: Final = "The request was closed without a decision."
QUOTE_LIMIT: Final = 80
QUESTION_MARK: Final = ":question-"  # in the ids of the calls that a client answers
KINDS: Final[dict[str, RequestKind]] = {kind: kind for kind in REQUEST_KINDS}


class PersonAnswer(NamedTuple):
    """A person's answer to an approval or a question. `value` is None if the person gave none."""

    kind: RequestKind
    id: int
    value: Any = None


def parse_item_id(name: str) -> ItemKey:
    """Parse `approval-12` or `question-7`."""
    kind, _, number = name.rpartition("-")
    if kind not in KINDS:
        raise NotFound(f"Nothing waits under the id {name[:QUOTE_LIMIT]!r}.")
    return KINDS[kind], parse_number(number)


def parse_number(text: Any) -> int:
    """Parse the number of an approval or a question, which a client received as text."""
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= len(str(MAX_INTEGER))):
        raise NotFound(f"Nothing waits under the id {str(text)[:QUOTE_LIMIT]!r}.")
    return min(int(text), MAX_INTEGER)


def apply_answers(call: RequestContext, tx: Transaction, tenant_id: int, key: str, answers: Iterable[PersonAnswer]) -> str:
    """Apply the answers to a turn of this conversation, and return the turn's id. All are applied, or none.

    The first decision counts. A later one that differs changes nothing; the turn's stream shows what was decided.
    """
    turn_ids: set[str] = set()
    for answer in answers:
        item = get_item(tx, tenant_id, key, answer)
        turn_ids.add(item.turn_id or "")
        with suppress(Conflict):
            if item.kind == "approval":
                decide(call, tx, item, answer.value)
            elif answer.value is not None:
                content = encode_result(answer.value) if item.is_client_call else parse_answer(answer.value)
                inbox.answer(tx, tenant_id, item.id, content, call.describe_caller(tx))
    if len(turn_ids) != 1:
        raise Invalid("All answers must be for the same turn.")
    return turn_ids.pop()


def get_item(tx: Transaction, tenant_id: int, key: str, answer: PersonAnswer) -> PersonRequest:
    item = inbox.get(tx, tenant_id, answer.id, answer.kind)
    if item.turn_id is None or finding.get_conversation(tx, tenant_id, item.conversation_id).key != key:
        raise NotFound(f"No {answer.kind} #{answer.id} in this conversation.")
    return item


def decide(call: RequestContext, tx: Transaction, approval: PersonRequest, value: Any) -> None:
    caller = call.describe_caller(tx)
    if value is None:
        if approval.is_open:
            rejection = ApprovalDecision("reject", caller, reason=ABANDONED_REASON)
            call.headway.permission.decide(tx, approval.tenant_id, approval.id, rejection)
        return
    if not isinstance(value, dict) or not isinstance(value.get("approved"), bool):
        raise Invalid(f"The answer to approval #{approval.id} must be an object with `approved`: true or false.")
    reason, arguments = value.get("reason"), value.get("editedArgs")
    if arguments is not None and not isinstance(arguments, dict):
        raise Invalid("editedArgs must be an object: all arguments of the call.")
    decision = ApprovalDecision(
        "approve" if value["approved"] else "reject",
        caller,
        inbox.encode_arguments(arguments) if arguments is not None and value["approved"] else None,
        reason if isinstance(reason, str) else "",
    )
    call.headway.permission.decide(tx, approval.tenant_id, approval.id, decision)


def parse_answer(value: Any) -> str:
    """Return the text of an answer, which is a text or an object with `answer`."""
    answer = value.get("answer") if isinstance(value, dict) else value
    if not isinstance(answer, str):
        raise Invalid("The answer to a question must be a text, or an object with `answer`.")
    return answer


def encode_result(value: Any) -> str:
    """Encode what a client's tool returned as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) and value.strip() else to_json(value)


def has_turn(tx: Transaction, tenant_id: int, key: str, turn_id: str) -> bool:
    """Whether the conversation with this key has this turn."""
    try:
        turn = finding.get_turn(tx, tenant_id, turn_id)
        return finding.get_conversation(tx, tenant_id, turn.conversation_id).key == key
    except (NotFound, Invalid):
        return False
