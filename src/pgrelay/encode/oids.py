"""The object identifiers of the built-in types that some code treats specially.

PostgreSQL, ``src/include/catalog/pg_type.dat``: the server never renumbers them.
"""

from typing import Final

BOOL: Final = 16
BYTEA: Final = 17
CHAR: Final = 18
NAME: Final = 19
INT8: Final = 20
INT2: Final = 21
INT2VECTOR: Final = 22
INT4: Final = 23
TEXT: Final = 25
OID: Final = 26
TID: Final = 27
XID: Final = 28
CID: Final = 29
OIDVECTOR: Final = 30
JSON: Final = 114
XML: Final = 142
POINT: Final = 600
LSEG: Final = 601
PATH: Final = 602
BOX: Final = 603
POLYGON: Final = 604
LINE: Final = 628
CIDR: Final = 650
FLOAT4: Final = 700
FLOAT8: Final = 701
CIRCLE: Final = 718
MACADDR8: Final = 774
MONEY: Final = 790
MACADDR: Final = 829
INET: Final = 869
BPCHAR: Final = 1042
VARCHAR: Final = 1043
DATE: Final = 1082
TIME: Final = 1083
TIMESTAMP: Final = 1114
TIMESTAMPTZ: Final = 1184
INTERVAL: Final = 1186
TIMETZ: Final = 1266
BIT: Final = 1560
VARBIT: Final = 1562
NUMERIC: Final = 1700
REFCURSOR: Final = 1790
UUID: Final = 2950
TXID_SNAPSHOT: Final = 2970
PG_LSN: Final = 3220
TSVECTOR: Final = 3614
JSONB: Final = 3802
JSONPATH: Final = 4072
PG_SNAPSHOT: Final = 5038
XID8: Final = 5069
OID8: Final = 6437
