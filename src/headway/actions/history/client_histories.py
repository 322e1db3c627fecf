"""Finds the conversation of a client that sends its whole history with every message and names no conversation.

Each turn stores a fingerprint of what its client had sent up to the turn's message. The next request repeats that and adds the
answer, so it finds the turn by the fingerprint. A client that went back, because the user has edited a message or wants another
answer, continues a copy of the conversation as it was at that point. A history that no turn knows is new.
"""

import hashlib
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from headway.actions.inspection import forks
from headway.actions.todos import conversations, finding
from headway.ledger import text
from headway.ledger.events import to_json
from headway.ledger.tenancy import Conversation, Turn
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

CANDIDATES_LIMIT: Final = 20  # turns with the same fingerprint that are compared: many conversations begin with "Hello"


class ClientMessage(NamedTuple):
    role: Literal["user", "assistant"]
    content: str


class ConversationName(NamedTuple):
    """The name of a conversation, as its client gives it. If all are empty, the history identifies it."""

    reference: str = ""  # an id or a key
    key: str = ""
    turn_id: str = ""  # of the turn that it continues after


class ContinuedConversation(NamedTuple):
    """Where a client's message goes."""

    conversation: Conversation
    last_turn: Turn | None  # None if the conversation is new


def compute_fingerprint(messages: Sequence[ClientMessage]) -> str:
    """Compute the fingerprint of a history. White space does not count, because clients trim texts."""
    words = [[message.role, " ".join(message.content.split())] for message in messages]
    return hashlib.sha256(to_json(words).encode()).hexdigest()[:32]


def find_continued(
    tx: Transaction, tenant_id: int, name: ConversationName, history: Sequence[ClientMessage]
) -> ContinuedConversation:
    """Find or create the conversation of a client's message. `history` is what the client has sent before the message."""
    if name.reference or name.key:
        conversation = find_named(tx, tenant_id, name)
        last_turn_id = conversation_store.find_last_turn(tx, tenant_id, conversation.id)
        return ContinuedConversation(conversation, finding.get_turn(tx, tenant_id, last_turn_id) if last_turn_id else None)
    turn = finding.get_turn(tx, tenant_id, name.turn_id) if name.turn_id else find_turn(tx, tenant_id, history)
    if turn is None:
        return ContinuedConversation(conversations.add_conversation(tx, tenant_id), None)
    next_turn_id = conversation_store.find_next_turn(tx, tenant_id, turn)
    if next_turn_id is None:
        return ContinuedConversation(finding.get_conversation(tx, tenant_id, turn.conversation_id), turn)
    return ContinuedConversation(forks.copy_before(tx, tenant_id, next_turn_id), turn)


def find_named(tx: Transaction, tenant_id: int, name: ConversationName) -> Conversation:
    """Find a conversation by id or key. A key that is not known yet is created, a number is not."""
    if name.key:
        return conversations.get_or_create(tx, tenant_id, name.key)
    number = name.reference.removeprefix("#")
    if (number.isascii() and number.isdigit()) or conversation_store.find_by_key(tx, tenant_id, name.reference):
        return finding.resolve(tx, tenant_id, name.reference)
    return conversations.get_or_create(tx, tenant_id, name.reference)


def find_turn(tx: Transaction, tenant_id: int, history: Sequence[ClientMessage]) -> Turn | None:
    """Find the turn whose answer ends a client's history, preferably one that is the last of its conversation."""
    answers = list(takewhile(lambda message: message.role == "assistant", reversed(history)))
    sent = history[: len(history) - len(answers)]
    if not sent:
        return None
    shown = "\n\n".join(message.content for message in reversed(answers))
    turns = conversation_store.list_by_fingerprint(tx, tenant_id, compute_fingerprint(sent), CANDIDATES_LIMIT)
    matching = [turn for turn in turns if is_answer(tx, tenant_id, turn, shown)]
    is_last = (turn for turn in matching if conversation_store.find_next_turn(tx, tenant_id, turn) is None)
    return next(is_last, matching[0] if matching else None)


def is_answer(tx: Transaction, tenant_id: int, turn: Turn, shown: str) -> bool:
    """Whether a client may have been shown this as the answer of a turn. It may be cut off, and there may be more around it."""
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    if run is None or run.status != "completed":
        return True  # there is no answer yet, or the client was told why there is none
    answer, shown = (" ".join(content.split()) for content in (run.result or "", shown))
    return answer in shown or answer.startswith(shown)


def save_fingerprint(tx: Transaction, tenant_id: int, turn_id: str, fingerprint: str) -> None:
    """Store what the client has sent by now, if it answered what the turn waited for instead of starting another turn."""
    conversation_store.save_fingerprint(tx, tenant_id, text.check_text(turn_id, "turn_id"), fingerprint)
