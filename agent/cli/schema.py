"""``schema``: prints the JSON Schema of the configuration file, for editors and other tools."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from agent.config.json_schema import document


def command(_: Namespace) -> int:
    """Print the schema; always 0."""
    sys.stdout.write(text())
    return 0


def text() -> str:
    """The schema as indented JSON."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
