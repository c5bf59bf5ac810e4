"""Which tables are relayed and to which topics, and which columns are dropped, masked or hashed."""

from pydantic import Field, ValidationInfo, field_validator

from pgrelay.config import fields
from pgrelay.config.section import Section


class Route(Section):
    """Tables that share a topic: `match` is a regular expression that must match all of `schema.table`."""

    match: fields.Pattern = Field(description="regular expression that the whole of schema.table matches")
    topic: fields.RouteTemplate = Field(description="their topic, built from {prefix}, {schema} and {table}")


class Tables(Section):
    """Regular expressions that must match all of `schema.table`."""

    include: tuple[fields.Pattern, ...] = Field(default=(), description="tables that are relayed; empty: all")
    exclude: tuple[fields.Pattern, ...] = Field(default=(), description="tables that are not relayed")


class Columns(Section):
    """Regular expressions for the whole of `schema.table.column`; the first list that matches decides."""

    drop: tuple[fields.Pattern, ...] = Field(default=(), description="columns that are left out")
    mask: tuple[fields.Pattern, ...] = Field(
        default=(), description="columns whose values are replaced by mask_with"
    )
    mask_with: str = Field(default="***", description="the replacement for a masked value")
    hash: tuple[fields.Pattern, ...] = Field(
        default=(),
        description="columns whose values are replaced by the hexadecimal HMAC-SHA-256 of their JSON",
    )
    hash_key: str | None = Field(
        default=None, repr=False, validate_default=True, description="the key of that HMAC, a secret"
    )

    @field_validator("hash_key")
    @classmethod
    def _check_hash_key(cls, value: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("hash") and not value:
            raise ValueError("missing, but columns.hash needs it; set it to a secret, such as ${HASH_KEY}")
        return value
