"""The status page: one HTML document with its style and its script, which requests nothing from elsewhere."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Self


@dataclass(frozen=True, slots=True)
class Page:
    """`html` is the document in UTF-8; `policy` its Content-Security-Policy, which allows nothing else."""

    html: bytes
    policy: str

    @classmethod
    def load(cls) -> Self:
        """Read the page's three parts from the package and join them."""
        parts = files("pgrelay.status").joinpath("html")
        style = parts.joinpath("page.css").read_text("utf-8")
        script = parts.joinpath("page.js").read_text("utf-8")
        html = parts.joinpath("page.html").read_text("utf-8")
        html = html.replace("/* page.css */", style).replace("/* page.js */", script)
        policy = (
            f"default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            f"frame-ancestors 'none'; style-src {_source(style)}; script-src {_source(script)}; img-src data:"
        )
        return cls(html.encode(), policy)


def _source(text: str) -> str:
    """The hash that allows an inline style or script: https://www.w3.org/TR/CSP3/#grammardef-hash-source"""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
