"""The columns of each kind of record, derived from its fields: the same for Spark, for Arrow and for archives.

Every kind has the common columns first: its position in the spool, whose record it is, and when it was made. Then come
the record's own fields, flat. As fields of records are only ever added, so are columns; what an older record does not
have has the field's default.
"""

from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import pyarrow as pa
from msgspec import inspect

from mqloom.core.telemetry import KINDS

ColumnType = Literal["string", "long", "double", "boolean", "timestamp"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and type, named as in SQL, and what stands where an older record has nothing."""

    name: str
    type: ColumnType
    default: str | int | float | bool | None = None


COMMON: Final = (
    Column("position", "long"),
    Column("gateway", "string"),
    Column("epoch", "long"),
    Column("number", "long"),
    Column("at", "timestamp"),
)
"""What every record has; `at` is a time in UTC."""

MISSING: Final = "missing"
"""Where all kinds are in one table: the kind of a row that stands for records which could not be read."""

MISSING_COLUMNS: Final = (Column("end", "long"), Column("is_gone", "boolean"), Column("problem", "string"))
"""Up to which position, whether they were deleted because they were old, and what is wrong with them if not."""

ARROW: Final[dict[ColumnType, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def own_columns(kind: str) -> tuple[Column, ...]:
    """Return the columns of a kind that are its own, in the order of its fields."""
    return _OWN[kind]


def kinds_in_one() -> tuple[str, ...]:
    """Return the kinds of rows where all are in one table."""
    return (*KINDS, MISSING)


def arrow_schema(kind: str) -> pa.Schema:
    """Return the Arrow schema of a kind's table."""
    return pa.schema([(column.name, ARROW[column.type]) for column in COMMON + own_columns(kind)])


def own_struct(kind: str) -> pa.StructType:
    """Return the Arrow type of a kind's own columns in one."""
    return pa.struct([(column.name, ARROW[column.type]) for column in own_columns(kind)])


def arrow_schema_of_all() -> pa.Schema:
    """Return the Arrow schema of all kinds in one table: common columns, `kind`, and each kind's own in one column."""
    fields = [(column.name, ARROW[column.type]) for column in COMMON]
    return pa.schema([*fields, ("kind", pa.string()), *((kind, own_struct(kind)) for kind in kinds_in_one())])


def _columns(record: type[msgspec.Struct]) -> tuple[Column, ...]:
    return tuple(
        Column(field.name, _type(field), None if field.default is msgspec.NODEFAULT else field.default)
        for field in msgspec.structs.fields(record)
        if field.name != "at"
    )


def _type(field: msgspec.structs.FieldInfo) -> ColumnType:
    match _present(inspect.type_info(field.type)):
        case inspect.StrType() | inspect.LiteralType():
            return "string"
        case inspect.IntType():
            return "long"
        case inspect.FloatType():
            return "double"
        case inspect.BoolType():
            return "boolean"
    raise AssertionError(f"no type of column for {field.name}: {field.type}")


def _present(found: inspect.Type) -> inspect.Type:
    """Return the type of a field that may be None without that: columns may be null anyway."""
    if isinstance(found, inspect.UnionType):
        [found] = [each for each in found.types if not isinstance(each, inspect.NoneType)]
    return found


_OWN: Final = {kind: _columns(record) for kind, record in KINDS.items()} | {MISSING: MISSING_COLUMNS}
