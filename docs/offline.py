"""Hook of mkdocs: the build fails where a page would load anything from elsewhere."""

from __future__ import annotations

import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'> ]+"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//[^"'> ]+"""
    r"""|\burl\(["']?(?:https?:)?//[^"')]+"""
)


def on_post_page(output: str, page: Page, **_: object) -> None:
    """Look at a page as it goes to the disk; raises PluginError."""
    if found := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
