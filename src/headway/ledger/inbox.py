"""The inbox: requests to people, to approve a tool call, to answer a question or to decide about a paused goal. The run or the goal
waits for the response."""

import hashlib
import json
from typing import Any, Final, Literal, NamedTuple, get_args

RequestKind = Literal["approval", "question", "decision"]
RequestState = Literal["open", "approved", "rejected", "answered", "expired", "canceled"]
# The states of requests of one kind, by the names that events and the lists of one kind have for them.
ApprovalState = Literal["proposed", "approved", "rejected", "expired", "canceled"]
QuestionState = Literal["open", "answered", "canceled"]

REQUEST_KINDS: Final[tuple[RequestKind, ...]] = get_args(RequestKind)
CHOICES_LIMIT: Final = 20
CHOICE_LENGTH: Final = 200


class PersonRequest(NamedTuple):
    """A request to a person: to approve a call, to answer a question, or to decide about a goal."""

    id: int
    tenant_id: int
    kind: RequestKind
    conversation_id: int
    turn_id: str | None
    run_id: str | None  # None for a decision, for which no run waits
    goal_id: int | None
    role: str
    # An approval:
    n: int = 0  # the message that requested the call
    call_index: int = 0  # the index of the call in that message
    call_id: str = ""
    tool: str = ""  # also the tool of the turn's client, if the client is to answer a question with its result
    arguments: str = ""  # JSON: as proposed, or as a person approved them instead
    digest: str = ""  # of the tool and the arguments; only a call with this digest may be made
    why: str = ""  # the rule that asks
    reason: str = ""  # why a person decided so; also the note with a decision
    # A question or a decision:
    question: str = ""
    choices: str = "[]"  # JSON: a list of texts; empty for any answer
    answer: str = ""
    # All:
    state: RequestState = "open"
    decided_by: str = ""
    created_at: int = 0
    expires_at: int = 0  # 0: never
    decided_at: int = 0

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def waiting_run(self) -> str:
        """The run that waits for an approval or an answer."""
        assert self.run_id is not None, "no run waits for a decision about a goal"
        return self.run_id

    @property
    def is_client_call(self) -> bool:
        """Whether the turn's client is to make a call and answer with its result. No person is asked."""
        return self.kind == "question" and bool(self.tool)

    @property
    def page(self) -> str:
        """The path of the page where a person can respond."""
        return f"/inbox/{self.id}"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "state": self.state,
            "conversation_id": self.conversation_id,
            "turn_id": self.turn_id,
            "run_id": self.run_id,
            "goal_id": self.goal_id,
            "role": self.role,
            "call_id": self.call_id,
            "tool": self.tool,
            "arguments": json.loads(self.arguments or "{}"),
            "digest": self.digest,
            "why": self.why,
            "reason": self.reason,
            "question": self.question,
            "choices": json.loads(self.choices),
            "answer": self.answer,
            "decided_by": self.decided_by,
            "created_at": self.created_at // 1000,
            "expires_at": self.expires_at // 1000,
            "decided_at": self.decided_at // 1000,
        }

    def as_item(self) -> dict[str, Any]:
        """Return the request as events and the lists of one kind have it."""
        document = self.as_json()
        if self.kind == "decision":
            return {name: document[name] for name in DECISION_FIELDS}
        if self.kind == "approval":
            return {name: document[name] for name in APPROVAL_FIELDS} | {"state": "proposed" if self.is_open else self.state}
        call = {"tool": self.tool, "arguments": document["arguments"]} if self.is_client_call else None
        named = {"client_call": call, "answered_by": self.decided_by, "answered_at": document["decided_at"]}
        return {name: document[name] for name in QUESTION_FIELDS} | named


SHARED_FIELDS: Final = ("id", "conversation_id", "turn_id", "run_id", "goal_id", "role", "state", "created_at")
APPROVAL_FIELDS: Final = (
    *SHARED_FIELDS,
    *("call_id", "tool", "arguments", "digest", "why", "reason", "decided_by", "expires_at", "decided_at"),
)
QUESTION_FIELDS: Final = (*SHARED_FIELDS, "question", "choices", "answer")
DECISION_FIELDS: Final = (*QUESTION_FIELDS, "reason", "decided_by", "decided_at")


def compute_digest(tool: str, arguments: str) -> str:
    """Compute the hash that binds an approval to one call: the tool and its arguments as stored."""
    return hashlib.sha256(f"{tool}\n{arguments}".encode()).hexdigest()
