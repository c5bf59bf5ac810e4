"""The digits of decimals that are encoded as base64 of an integer's bytes, as in Kafka Connect, in SQL."""

from typing import Final

from pyspark.sql.types import DecimalType

from pgrelay.spark.names import sql_type
from pgrelay.spark.records.sql import when

_HEX_DIGITS: Final = 32  # of the 128 bits that 38 digits fit in


def exact_decimal(digits: str, to: DecimalType) -> str:
    """The decimal of a text; null if digits would be lost: a cast alone would round."""
    behind_point = f"length(substring_index({digits}, '.', -1))"
    fits = f"(NOT contains({digits}, '.') OR {behind_point} <= {to.scale}) AND NOT contains({digits}, 'E')"
    return when(fits, f"try_cast({digits} AS {sql_type(to)})")


def declared_decimal_text(base64: str, scale: int) -> str:
    """`decimal_text` for the scale that a column's type declares, which may be negative; null for NaN."""
    # Spark decodes these three characters, too. A type with a declared precision has no infinities.
    digits = when(f"{base64} != 'NaN'", decimal_text(base64, str(max(scale, 0))))
    return digits if scale >= 0 else when(f"{digits} = '0'", "'0'", f"concat({digits}, '{'0' * -scale}')")


def decimal_text(base64: str, scale: str) -> str:
    """The digits of base64's integer over 10^scale; null past 38 digits."""
    return integer_text(f"hex(try_to_binary({base64}, 'base64'))", scale)


def integer_text(hexadecimal: str, scale: str) -> str:
    """The digits of an integer's big-endian two's complement over 10^scale; null past 38 digits."""
    filler = when(f"{hexadecimal} >= '8'", "'F'", "'0'")
    padded = f"lpad({hexadecimal}, {_HEX_DIGITS}, {filler})"
    high = f"try_cast(conv(substring({padded}, 1, 16), 16, -10) AS decimal(20,0))"
    low = f"try_cast(conv(substring({padded}, 17, 16), 16, 10) AS decimal(20,0))"
    # Null for a negative number that is less than 2^64 above the lowest of 38 digits: `high` is rounded down.
    integer = f"try_add(try_multiply({high}, 18446744073709551616BD), {low})"
    sign = when(f"{integer} < 0", "'-'", "''")
    digits = f"regexp_replace(CAST({integer} AS string), '^-', '')"
    digits = when(f"length({digits}) > {scale}", digits, f"lpad({digits}, {scale} + 1, '0')")
    whole = f"substring({digits}, 1, length({digits}) - {scale})"
    fraction = when(f"{scale} > 0", f"concat('.', right({digits}, {scale}))", "''")
    return when(f"length({hexadecimal}) <= {_HEX_DIGITS}", f"concat({sign}, {whole}, {fraction})")


def variable_decimal_text(text: str) -> str:
    """The digits of `{"scale": 2, "value": "<base64>"}`; NaN and the infinities stay as they are."""
    scale = f"try_cast(get_json_object({text}, '$.scale') AS int)"
    digits = decimal_text(f"get_json_object({text}, '$.value')", scale)
    return when(f"startswith({text}, '{{')", digits, text)
