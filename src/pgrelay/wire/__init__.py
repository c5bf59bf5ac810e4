"""Bytes to and from the two protocols we speak: streaming replication, and pgoutput inside it.

Everything here is pure: bytes in, values out, `ProtocolError` on anything that is not exactly what the
manual says.
"""
