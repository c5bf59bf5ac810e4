"""The digits of decimals that are encoded as base64 of an integer's bytes (Kafka Connect's Decimal)."""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

_HEX_DIGITS: Final = 32  # of the 128 bits that 38 digits fit in


def exact_decimal(digits: Expression, to: DecimalType) -> Expression:
    """The decimal of a text; null if digits would be lost: a cast alone would round."""
    behind_point = F.length(F.substring_index(digits, ".", -1))
    fits = ~digits.contains(".") | (behind_point <= to.scale)
    return F.when(fits & ~digits.contains("E"), digits.try_cast(to))


def decimal_text(base64: Expression, scale: Expression) -> Expression:
    """The digits of base64's integer over 10^scale; null past 38 digits."""
    return integer_text(F.hex(F.try_to_binary(base64, F.lit("base64"))), scale)


def integer_text(hexadecimal: Expression, scale: Expression) -> Expression:
    """The digits of an integer's big-endian two's complement over 10^scale; null past 38 digits."""
    negative = hexadecimal >= "8"
    padded = F.lpad(hexadecimal, _HEX_DIGITS, F.when(negative, "F").otherwise("0"))
    high = F.conv(F.substring(padded, 1, 16), 16, -10).try_cast("decimal(20,0)")
    low = F.conv(F.substring(padded, 17, 16), 16, 10).try_cast("decimal(20,0)")
    integer = F.try_add(F.try_multiply(high, F.expr("18446744073709551616BD")), low)
    sign = F.when(integer < 0, "-").otherwise("")
    digits = F.regexp_replace(integer.cast("string"), "^-", "")
    digits = F.when(F.length(digits) > scale, digits).otherwise(F.lpad(digits, scale + 1, F.lit("0")))
    whole = F.substring(digits, F.lit(1), F.length(digits) - scale)
    fraction = F.when(scale > 0, F.concat(F.lit("."), F.right(digits, scale))).otherwise("")
    return F.when(F.length(hexadecimal) <= _HEX_DIGITS, F.concat(sign, whole, fraction))


def variable_decimal_text(text: Expression) -> Expression:
    """The digits of `{"scale": 2, "value": "<base64>"}`; NaN and the infinities stay as they are."""
    scale = F.get_json_object(text, "$.scale").try_cast("int")
    digits = decimal_text(F.get_json_object(text, "$.value"), scale)
    return F.when(text.startswith("{"), digits).otherwise(text)
