"""What a Postgres column is in Spark: the exact counterpart of its type, or text where there is none.

| Postgres | Spark |
|---|---|
| smallint · integer · bigint, oid | smallint · int · bigint |
| real · double precision | float · double |
| numeric(p,s), at most 38 digits | decimal(p,s) |
| boolean · bytea · date | boolean · binary · date |
| timestamp · timestamptz | timestamp_ntz · timestamp |
| hstore | map of string to string |
| arrays | array of the element's type |
| all else: numeric without precision, text, uuid, json, time, timetz, interval, money, ranges, ... | string |

A column that the relay masks or hashes is a string. Only one-dimensional arrays are read as arrays. Columns
with arrays of more dimensions, or with values that a type of Spark can't hold (NaN in a decimal, infinity in
a date), have to be read as text (`TableSchema.as_text`).
"""

import re
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from pgrelay.encode.encodings import JSON, STRING
from pgrelay.encode.values.numbers import declared_precision, declared_scale

_ARRAY: Final = re.compile(r"array<(.*)>")

MAX_DIGITS: Final = 38  # of Spark's decimal

_COUNTERPARTS: Final[dict[str, DataType]] = {
    "bool": BooleanType(),
    "int2": ShortType(),
    "int4": IntegerType(),
    "int8": LongType(),
    "oid": LongType(),
    "float4": FloatType(),
    "float8": DoubleType(),
    "bytea": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampNTZType(),
    "timestamptz": TimestampType(),
    "hstore": MapType(StringType(), StringType()),
}

# Values of these types are never stored out of line (TOAST), so an update always carries them.
_INLINE: Final = frozenset(
    (
        *("bool", "char", "int2", "int4", "int8", "oid", "float4", "float8", "money", "uuid", "name"),
        *("date", "time", "timetz", "timestamp", "timestamptz", "interval", "macaddr", "macaddr8"),
        *("point", "lseg", "box", "line", "circle", "pg_lsn", "tid", "xid", "xid8", "oid8", "cid"),
        *("regproc", "regprocedure", "regoper", "regoperator", "regclass", "regtype", "regconfig"),
        *("regdictionary", "regnamespace", "regrole", "regcollation", "regdatabase"),
    )
)

# From this OID on, types are a database's own: one may be called money or line, and be large.
_FIRST_OF_USERS: Final = 16_384


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the schema topic describes it.

    type_name      pg_type.typname, for a domain that of its base type: int4, _int4, mood
    type_modifier  pg_attribute.atttypmod, -1 if none was declared
    key            whether it is part of the record's key
    encoding       the name of the JSON encoding or Avro type of its values
    text           whether to read it as a string whatever its type, for example because the relay hides it
    type_oid       pg_attribute.atttypid, 0 if it isn't known
    """

    name: str
    type_name: str
    type_modifier: int = -1
    key: bool = False
    encoding: str = STRING
    text: bool = False
    type_oid: int = field(default=0, compare=False)

    @property
    def spark_type(self) -> DataType:
        """The type of the column in Spark."""
        if self.text:
            return StringType()
        element = self.element
        if element is not None:
            return ArrayType(element.spark_type)
        if self.type_name == "numeric":
            return self._numeric()
        counterpart = _COUNTERPARTS.get(self.type_name, StringType())
        # Earlier relays do not mark hidden columns, but their hashes and masks have this encoding. Bytea and
        # timestamps that are not hidden have others.
        return StringType() if self.encoding == STRING else counterpart

    @property
    def element(self) -> "Column | None":
        """An array's elements, as a column of their own; None if this is no array."""
        array = _ARRAY.fullmatch(self.encoding)
        if array is None or array[1] == JSON:  # an array of documents stays a single text, to keep it exact
            return None
        name = self.type_name if array[1].startswith("array<") else self.type_name.removeprefix("_")
        return Column(self.name, name, self.type_modifier, encoding=array[1])

    @property
    def toastable(self) -> bool:
        """Whether an update may leave the value out."""
        return not self.key and (self.type_name not in _INLINE or self.type_oid >= _FIRST_OF_USERS)

    def _numeric(self) -> DataType:
        if self.encoding == "double":  # Avro's, under `numeric: double`
            return DoubleType()
        if self.type_modifier < 0:
            return StringType()
        precision, scale = declared_precision(self.type_modifier), declared_scale(self.type_modifier)
        # numeric(5,-2) has up to seven digits before the point, numeric(3,5) five after it.
        precision = precision - scale if scale < 0 else max(precision, scale)
        return DecimalType(precision, max(scale, 0)) if precision <= MAX_DIGITS else StringType()
