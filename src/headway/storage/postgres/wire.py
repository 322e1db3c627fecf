"""Statements in batches: they are queued here, and sent together when a result is needed.

psycopg's own cursors wait for the server, or at least talk to it, at every statement. This module uses libpq's pipeline mode
directly: ten statements then cost about as much as one.
"""

import select
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from math import inf
from secrets import token_hex
from typing import Any, NamedTuple

import psycopg
from psycopg import errors, pq
from psycopg.adapt import Transformer

from headway.ledger.errors import CommitUncertain
from headway.storage.postgres.opening import UNPREPARED_ERRORS
from headway.storage.transaction import Query, Row

INT8, FLOAT8, TEXT, BYTEA, UNKNOWN = 20, 701, 25, 17, 0
AS_TEXT, AS_BINARY = pq.Format.TEXT, pq.Format.BINARY
MAX_PREPARED = 400  # per connection; the rest, such as lists of many lengths, is parsed at every use
MAX_SEEN = 4_000
WAIT_MS = 60_000  # how long one wait for the socket may last; TCP timeouts decide when a connection is lost

FAILURE_STATUSES = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED)

Receiver = Callable[[list[Row]], None]
StatementKey = tuple[str, tuple[int, ...]]


class Expected(NamedTuple):
    """The reply to one message that was sent."""

    receive: Receiver | None = None  # gets the rows
    is_sync: bool = False  # the end of a batch
    is_commit: bool = False
    is_optional: bool = False  # an error changes nothing


ANY_REPLY = Expected()
SYNC = Expected(is_sync=True)
OPTIONAL = Expected(is_optional=True)
COMMIT = Query("COMMIT")


class Parameters(NamedTuple):
    values: list[bytes | None]
    types: tuple[int, ...]
    formats: list[pq.Format]


@cache
def number_parameters(sql: str) -> bytes:
    """Write `$1`, `$2` … for the question marks of a statement."""
    parts = sql.split("?")
    return "".join(f"{part}${number}" for number, part in enumerate(parts[:-1], 1)).encode() + parts[-1].encode()


def encode_parameters(parameters: Sequence[Any]) -> Parameters:
    """Encode the values. All integers have one type, so that a statement is not prepared again for each size of number. Texts are
    sent with their length: a zero byte is refused by the server, and does not end the text."""
    values: list[bytes | None] = []
    types: list[int] = []
    formats: list[pq.Format] = []
    for value in parameters:
        form = AS_TEXT
        if value is None:
            kind, encoded = UNKNOWN, None
        elif isinstance(value, str):
            kind, encoded, form = TEXT, value.encode(), AS_BINARY
        elif isinstance(value, int):
            kind, encoded = INT8, b"%d" % value
        elif isinstance(value, float):
            kind, encoded = FLOAT8, repr(value).encode()
        else:
            kind, encoded, form = BYTEA, bytes(value), AS_BINARY
        values.append(encoded)
        types.append(kind)
        formats.append(form)
    return Parameters(values, tuple(types), formats)


class Wire:
    """A connection in pipeline mode, for one thread."""

    trace: Callable[[str], None] | None = None  # called with each statement that is sent, and with "" before each wait

    def __init__(self, connection: psycopg.Connection[Row], *, prepares: bool = True) -> None:
        self.connection = connection  # closes the socket when it is collected
        self.pgconn = connection.pgconn
        self.pgconn.nonblocking = 1
        self.pgconn.enter_pipeline_mode()
        self.prepares = prepares
        self.queued: list[tuple[Query, Expected]] = []
        self.expected: deque[Expected] = deque()
        self.names: dict[StatementKey, bytes] = {}
        self.new_names: list[StatementKey] = []  # prepared in batches whose replies have not arrived
        self.seen: set[StatementKey] = set()
        self.numbers = count(1)
        # No other client uses these names. A pooler that does not track them would otherwise run another client's statement.
        self.prefix = f"headway_{token_hex(6)}_".encode()
        self.loader = Transformer()
        self.readable = select.poll()
        self.readable.register(self.pgconn.socket, select.POLLIN)
        self.both = select.poll()
        self.both.register(self.pgconn.socket, select.POLLIN | select.POLLOUT)

    @property
    def closed(self) -> bool:
        return self.connection.closed

    def close(self) -> None:
        self.connection.close()

    def queue(self, query: Query, receive: Receiver | None = None) -> None:
        """Queue a statement. If it fails, the next method that waits for replies raises the error."""
        self.queued.append((query, Expected(receive) if receive else ANY_REPLY))

    def fetch(self, *queries: Query) -> list[list[Row]]:
        """Send everything that is queued and these queries, and return the rows of each."""
        results: list[list[Row]] = []
        for query in queries:
            self.queue(query, results.append)
        self.flush()
        return results

    def flush(self) -> None:
        """Send everything that is queued, and wait for the replies."""
        self._send()
        self._receive()

    def commit(self, announcement: Query | None) -> None:
        """Send everything that is queued together with COMMIT and what follows it, and wait until the commit is acknowledged."""
        self._check_silence()
        committed: list[list[Row]] = []
        self.queued.append((COMMIT, Expected(committed.append, is_commit=True)))
        self._send()
        if announcement:
            self.queued.append((announcement, OPTIONAL))
            self._send()
        self._receive(batches=1)
        if not committed:
            raise psycopg.InternalError("the server rolled back instead of committing")

    def end_reading(self) -> None:
        """End a transaction that has only read, without waiting for the reply."""
        self.queued.append((COMMIT, OPTIONAL))
        self._send()

    def roll_back(self) -> None:
        """Drop what was not sent, and undo the rest."""
        self.queued.clear()
        if self.closed:
            return
        try:
            self._receive()
            if self.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                self.queued.append((Query("ROLLBACK"), OPTIONAL))
                self._send()
        except psycopg.Error:
            self.close()

    def _send(self) -> None:
        """Send everything that is queued as one batch."""
        if not self.queued:
            return
        for query, expected in self.queued:
            self._send_statement(query, expected)
        self.queued.clear()
        self.pgconn.pipeline_sync()
        self.expected.append(SYNC)

    def _check_silence(self) -> None:
        """Raise an error if the server has sent something unasked since the last batch, because then it ends the connection. The
        statements that are still queued were certainly not executed."""
        self._receive()
        if self.readable.poll(0):
            self.close()
            raise psycopg.OperationalError("the server has ended the connection")

    def _receive(self, batches: float = inf) -> None:
        """Wait for the replies to the first batches that were sent, or all, and raise the first error among them."""
        failure: Exception | None = None
        is_uncertain = any(reply.is_commit for reply in self.expected)
        if Wire.trace and self.expected:
            Wire.trace("")
        while self.expected and batches > 0:
            expected = self.expected[0]
            try:
                result = self._next_result()
                if result is None or (result.status == pq.ExecStatus.PIPELINE_SYNC) != expected.is_sync:
                    # Such as a timeout at the end of a batch. The next transaction must not take this one's replies for its own.
                    raise psycopg.OperationalError("the server's replies do not match what was sent")
                if not expected.is_sync:
                    self._next_result()  # the end of this statement's results
            except psycopg.OperationalError as error:
                self.expected.clear()
                self.close()
                raise failure or (CommitUncertain() if is_uncertain else error) from error
            self.expected.popleft()
            batches -= expected.is_sync
            if not expected.is_sync and failure is None:
                failure = self._accept(expected, result)
        if failure is not None:
            for key in self.new_names:
                self.names.pop(key, None)  # perhaps it was not prepared; the name is not used again
        self.new_names.clear()
        if failure is not None:
            raise failure

    def _accept(self, expected: Expected, result: "pq.abc.PGresult") -> Exception | None:
        """Pass on the rows of a result, or return its error."""
        if result.status in FAILURE_STATUSES:
            error = self._build_error(result)
            if expected.is_optional and not isinstance(error, UNPREPARED_ERRORS):
                return None  # but the COMMIT that a pooler did not find prepared leaves a transaction open
            return CommitUncertain() if expected.is_commit and isinstance(error, psycopg.OperationalError) else error
        if expected.is_commit and result.command_status != b"COMMIT":
            return None
        if expected.receive is not None:
            expected.receive(self._load_rows(result))
        return None

    def stream(self, query: Query) -> Iterator[Row]:
        """Yield the rows of a query one by one, in bounded memory."""
        self.flush()
        self.queue(query)
        self._send()
        while len(self.expected) > 2:  # a statement that is prepared first
            self._next_result()
            self._next_result()
            self.expected.popleft()
        self.pgconn.set_single_row_mode()
        while (result := self._next_result()) is not None and result.status == pq.ExecStatus.SINGLE_TUPLE:
            yield self._load_rows(result)[0]
        self.expected.popleft()
        if result is not None:
            self._next_result()
        self._receive()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise self._build_error(result)

    @contextmanager
    def copy(self, sql: str) -> "Iterator[psycopg.Copy]":
        """Run COPY, after everything that is queued. libpq has no COPY in pipeline mode, so that mode is left meanwhile."""
        self.flush()
        if Wire.trace:
            Wire.trace(sql)
        self.pgconn.exit_pipeline_mode()
        try:
            with self.connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
                yield copy
        finally:
            if not self.closed:
                self.pgconn.enter_pipeline_mode()

    def _send_statement(self, query: Query, expected: Expected) -> None:
        if Wire.trace:
            Wire.trace(query.sql)
        parameters = encode_parameters(query.parameters)
        key = (query.sql, parameters.types)
        name = self.names.get(key) or self._prepare(key)
        if name:
            self.pgconn.send_query_prepared(name, parameters.values, parameters.formats)
        else:
            sql = number_parameters(query.sql)
            self.pgconn.send_query_params(sql, parameters.values, parameters.types, parameters.formats)
        self.expected.append(expected)

    def _prepare(self, key: StatementKey) -> bytes | None:
        """Prepare a statement that is used for the second time, and return its name."""
        if not self.prepares or len(self.names) >= MAX_PREPARED:
            return None
        if key not in self.seen:
            if len(self.seen) >= MAX_SEEN:
                self.seen.clear()
            self.seen.add(key)
            return None
        name = self.names[key] = self.prefix + b"%d" % next(self.numbers)
        self.new_names.append(key)
        self.pgconn.send_prepare(name, number_parameters(key[0]), key[1])
        self.expected.append(ANY_REPLY)
        return name

    def _next_result(self) -> "pq.abc.PGresult | None":
        """Wait for the next result. libpq itself must not wait: it would hold the interpreter's lock."""
        while self.pgconn.is_busy():
            has_unsent = self.pgconn.flush()
            (self.both if has_unsent else self.readable).poll(WAIT_MS)
            self.pgconn.consume_input()
        return self.pgconn.get_result()

    def _load_rows(self, result: "pq.abc.PGresult") -> list[Row]:
        if not result.ntuples:
            return []
        self.loader.set_pgresult(result)
        return self.loader.load_rows(0, result.ntuples, tuple)

    def _build_error(self, result: "pq.abc.PGresult") -> psycopg.Error:
        if result.error_field(pq.DiagnosticField.SQLSTATE) is None:  # libpq made this result, because the connection is lost
            return psycopg.OperationalError(result.get_error_message() or "the connection is lost")
        return errors.error_from_result(result)
