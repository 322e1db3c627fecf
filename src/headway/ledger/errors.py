"""Every error that Headway raises.

HeadwayError
├── Invalid                   the request itself is wrong: fix it and send it again
│   ├── EmptySubject
│   ├── TextTooLong
│   ├── UnsafeText
│   ├── UnknownStatus
│   ├── BadCursor
│   ├── BadDocument
│   ├── BadTool
│   ├── BadAttachment
│   ├── AttachmentRefused
│   ├── OutOfReach
│   └── DependencyCycle
├── Unauthorized              no valid token
├── Forbidden                 a valid token, but not allowed to do this
│   ├── ReadOnlyToken
│   └── OperatorOnly
├── WrongCell                 the tenant is in another database
├── NotFound                  no such row in this tenant (it may belong to another)
├── Conflict                  the row's current state does not allow it
│   ├── IllegalTransition
│   ├── AlreadyEnded
│   ├── ChecksRequired
│   ├── CheckFailed
│   ├── Leased
│   ├── LeaseLost
│   ├── NameTaken
│   ├── KeyReused
│   ├── KeyBusy
│   ├── TurnRowsStay
│   ├── TurnRunning
│   │   └── TurnWaiting
│   └── TurnEnded
├── QuotaExceeded             the tenant uses as much as it may
├── Halted                    the kill switch is on
├── TurnFailed                an agent could not finish a turn
├── Closed                    Headway was closed before the turn ended
│   └── DatabaseClosed        a call after that; a StorageError as well
├── ServerUnreachable         the server of a remote client does not answer
├── ServerFailed              the server of a remote client could not do this
├── SettingsError             the environment or a flag is wrong
│   ├── MissingExtra          an optional library is needed and not installed
│   └── UntrustedFolder       the settings come from a folder that the user has not trusted
└── StorageError              the database failed or could not be reached
    ├── DatabaseBusy
    ├── TenantMoving          the tenant is being moved to another cell
    ├── DatabaseFull
    ├── DatabaseReadOnly
    ├── DatabaseDamaged
    ├── DatabaseUnreachable
    ├── DatabaseTooNew
    ├── DatabaseUnreleased
    └── CommitUncertain

A class's docstring is the default message of its errors. Each surface maps these classes to
its own codes in one table.
"""

import re
from collections.abc import Mapping, Sequence


class HeadwayError(Exception):
    """Something went wrong."""

    # The first argument is the message in every class, so that an error can be copied.

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__ or type(self).__name__)

    @property
    def code(self) -> str:
        """Return the stable, snake_case name that programs can match on: IllegalTransition → illegal_transition."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


class Invalid(HeadwayError):
    """The request is not valid."""


class EmptySubject(Invalid):
    """A todo needs a subject: a few words that say what to do."""


class TextTooLong(Invalid):
    """The text is too long."""


class UnsafeText(Invalid):
    """The text contains a NUL character or a lone surrogate, which cannot be stored."""


class UnknownStatus(Invalid):
    """Unknown status. Known: pending, in_progress, completed, canceled."""


class BadCursor(Invalid):
    """This list did not give out that cursor. Pass a page's next_cursor unchanged, or omit it to start from the first page."""


class BadDocument(Invalid):
    """The document cannot be read."""


class BadTool(Invalid):
    """The function cannot be a tool."""


class BadAttachment(Invalid):
    """The attachment cannot be used."""


class AttachmentRefused(Invalid):
    """The model does not accept this kind of file."""


class OutOfReach(Invalid):
    """A required service cannot be reached right now. Try again later."""


class DependencyCycle(Invalid):
    """The dependencies form a cycle, so none of these todos could ever start."""


class Unauthorized(HeadwayError):
    """A valid token is needed: send `Authorization: Bearer hw_…`. `headway token add` creates one."""


class Forbidden(HeadwayError):
    """This request is not allowed from here."""


class ReadOnlyToken(Forbidden):
    """This token may only read, so nothing was changed. Changes need a token with the `write` scope."""


class OperatorOnly(Forbidden):
    """Only the installation's operator may do this: on the command line, or with a token of `headway token add --operator`."""


class WrongCell(HeadwayError):
    """The tenant is in another cell."""

    def __init__(self, message: str | None = None, cell: str = "", location: str = "") -> None:
        super().__init__(message)
        self.cell = cell
        self.location = location  # the public address of that cell; empty: unknown
        self.has_moved = False  # whether this database has had the tenant, so that the caller is no stranger

    @classmethod
    def from_event(cls, data: Mapping[str, str]) -> "WrongCell":
        """Build the error for the event tenant_moved."""
        return cls(f"The tenant has moved to the cell {data['cell']}.", data["cell"], data["location"])


class NotFound(HeadwayError):
    """Not found."""


class Conflict(HeadwayError):
    """The current state does not allow this."""


class IllegalTransition(Conflict):
    """This change of status is not allowed."""


class AlreadyEnded(Conflict):
    """The todo has already ended."""


class ChecksRequired(Conflict):
    """The todo has checks, which must run before it can be completed."""

    def __init__(self, message: str | None = None, todo_id: int = 0, outcome: str | None = None) -> None:
        super().__init__(message)
        self.todo_id = todo_id
        self.outcome = outcome


class CheckFailed(Conflict):
    """A check failed."""

    def __init__(self, message: str | None = None, failures: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(message)
        self.failures = failures


class Leased(Conflict):
    """Another agent holds a lease on this todo; pass its lease token, or force the change."""


class LeaseLost(Conflict):
    """The lease is no longer valid: it expired, or the todo was claimed again, ended or released. Claim the todo again."""


class NameTaken(Conflict):
    """That name is already taken."""


class KeyReused(Conflict):
    """This Idempotency-Key was already used with a different request. Use a new key."""


class KeyBusy(Conflict):
    """Another request with this Idempotency-Key is still in progress. Try again shortly."""


class TurnRowsStay(Conflict):
    """Todos in a turn's plan cannot be deleted. Cancel the todo instead."""


class TurnRunning(Conflict):
    """A turn is running in this conversation. Wait for it to end, or cancel it."""

    conversation_id = 0  # where it runs, if that is known


class TurnWaiting(TurnRunning):
    """The running turn waits for a person, so it does not end by itself."""


class TurnEnded(Conflict):
    """The turn has already ended."""


class QuotaExceeded(HeadwayError):
    """This tenant already uses as much as it may."""


class Halted(HeadwayError):
    """Headway is halted: nothing starts until an operator lifts the halt with `headway unhalt`."""


class TurnFailed(HeadwayError):
    """The turn failed."""


class Closed(HeadwayError):
    """Headway was closed before this ended. It resumes when Headway is opened again."""


class ServerUnreachable(HeadwayError):
    """The server cannot be reached."""


class ServerFailed(HeadwayError):
    """The server could not do this."""


class SettingsError(HeadwayError):
    """A setting is wrong."""


class MissingExtra(SettingsError):
    """A library is needed that is not installed."""


class UntrustedFolder(SettingsError):
    """The current folder is not trusted. Run `headway trust` in it."""


class StorageError(HeadwayError):
    """The database could not do this."""

    @property
    def is_transient(self) -> bool:
        """Whether the database itself is failing, so the same request may succeed later. A bare StorageError would recur."""
        return type(self) is not StorageError


class DatabaseBusy(StorageError):
    """Another process holds the database locked; nothing was changed. Try again shortly."""


class TenantMoving(StorageError):
    """The tenant is being moved to another cell; nothing was changed. Try again in a few seconds."""


class DatabaseFull(StorageError):
    """The disk is full; nothing was changed. Free some space and try again."""


class DatabaseReadOnly(StorageError):
    """The database cannot be written; check the permissions of its folder."""


class DatabaseDamaged(StorageError):
    """The database file is damaged or not a database. It was left untouched; restore a backup."""


class DatabaseUnreachable(StorageError):
    """The database cannot be reached."""


class DatabaseTooNew(StorageError):
    """The database was created by a newer version of Headway. Upgrade this one."""


class DatabaseUnreleased(StorageError):
    """The database was created by a version of Headway from before the first release."""


class CommitUncertain(StorageError):
    """The database connection was lost during a commit, so the change may or may not be stored. Check before you repeat it."""


class DatabaseClosed(Closed, StorageError):
    """Headway is closed."""

    @property
    def is_transient(self) -> bool:
        return False
