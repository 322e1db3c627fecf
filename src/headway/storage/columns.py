"""The columns of tables whose rows are values. They follow from the fields of the value's class, so a field is written down once:
there, beside the migration that adds its column."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from headway.storage.transaction import Row, Transaction

ValueT = TypeVar("ValueT", bound=NamedTuple)
Conversions = list[tuple[int, Callable[[Any], Any]]]  # by the index in a row


class Column(NamedTuple):
    """The column of a field that is not stored as it is under its name."""

    name: str = ""  # of the column, if it has another one
    sql: str = ""  # computes the field when it is read; no column stores it
    decode: Callable[[Any], Any] | None = None
    encode: Callable[[Any], Any] | None = None


class Columns(Generic[ValueT]):
    """The columns of a value, as parts of statements, and the conversion of rows to values and back.

    Each field is the column of its name, unless it has a `Column`. The last fields may be `unread`: they have no column, and are
    loaded as their defaults, or as what is appended to the row. `fixed` fields keep what was inserted.
    """

    def __init__(
        self, value_class: type[ValueT], /, *, unread: tuple[str, ...] = (), fixed: tuple[str, ...] = (), **special: Column
    ) -> None:
        assert {*unread, *fixed, *special} <= {*value_class._fields}
        fields = [field for field in value_class._fields if field not in unread]
        columns = [special.get(field, Column()) for field in fields]
        read = [column.sql or column.name or field for field, column in zip(fields, columns, strict=True)]
        stored = [index for index, column in enumerate(columns) if not column.sql]
        changed = [index for index in stored if fields[index] not in fixed]

        self.value_class = value_class
        self.names = [read[index] for index in stored]
        self.width = len(fields)  # of a row
        # For SELECT and RETURNING, for INSERT, and for UPDATE:
        self.selected = ", ".join(read)
        self.stored = ", ".join(self.names)
        self.marks = ", ".join("?" * len(stored))
        self.assignments = ", ".join(f"{read[index]} = ?" for index in changed)

        decoders = [(index, column.decode) for index, column in enumerate(columns) if column.decode]
        encoders = [(index, column.encode) for index, column in enumerate(columns) if column.encode]
        self.load: Callable[[Sequence[Any]], ValueT] = build_loader(value_class, decoders, is_complete=not unread)
        self.dump = build_dumper(stored, encoders)  # the parameters of `marks`
        self.dump_changed = build_dumper(changed, encoders)  # the parameters of `assignments`

    def one(self, tx: Transaction, sql: str, *parameters: Any) -> ValueT | None:
        """Run a query for the selected columns of one row."""
        row = tx.one(sql, *parameters)
        return self.load(row) if row else None

    def all(self, tx: Transaction, sql: str, *parameters: Any) -> list[ValueT]:
        """Run a query for the selected columns of several rows."""
        return list(map(self.load, tx.all(sql, *parameters)))


def build_loader(value_class: type[ValueT], decoders: Conversions, *, is_complete: bool) -> Callable[[Sequence[Any]], ValueT]:
    """Build the conversion of a row to a value. It runs for every row of every list, so it leaves out the check of `_make`."""
    create: Callable[[Any], ValueT] = partial(tuple.__new__, value_class) if is_complete else lambda row: value_class(*row)

    def load(row: Sequence[Any]) -> ValueT:
        values = list(row)
        for index, decode in decoders:
            values[index] = decode(values[index])
        return create(values)

    if len(decoders) != 1:
        return load if decoders else create
    ((only, decode),) = decoders
    after = only + 1
    if after == len(value_class._fields):
        return lambda row: create((*row[:only], decode(row[only])))
    return lambda row: create((*row[:only], decode(row[only]), *row[after:]))


def build_dumper(indexes: list[int], encoders: Conversions) -> Callable[[NamedTuple], Row]:
    """Build the conversion of a value to the values of its columns at these indexes."""
    pick: Callable[[Any], Row] = itemgetter(*indexes)

    def dump(value: NamedTuple) -> Row:
        values = list(value)
        for index, encode in encoders:
            values[index] = encode(values[index])
        return pick(values)

    return dump if encoders else pick


def split_ids(text: str | None) -> tuple[int, ...]:
    """Decode ids that a query has joined with commas."""
    return tuple(sorted(map(int, text.split(",")))) if text else ()
