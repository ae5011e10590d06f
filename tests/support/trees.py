"""A host tree as reviewable text: one section for each folder, one line for each entry.

``name = content`` is a file (``\\n`` for further lines, nothing for an empty one),
``name -> target`` a link, ``name/`` an empty folder. A recorded machine holds no serial numbers
and no MAC addresses.
"""

from __future__ import annotations

from pathlib import Path


def dump_tree(root: Path) -> str:
    """The tree below ``root`` as text, sorted."""
    sections = []
    for folder in sorted((root, *(p for p in root.rglob("*") if p.is_dir())), key=str):
        if folder.is_symlink():
            continue
        lines = [_line(entry) for entry in sorted(folder.iterdir()) if _is_leaf(entry)]
        if lines:
            name = folder.relative_to(root).as_posix()
            sections.append("\n".join([f"[{name}]", *lines]))
    return "\n\n".join(sections) + "\n"


def _is_leaf(entry: Path) -> bool:
    return entry.is_symlink() or not entry.is_dir() or not any(entry.iterdir())


def _line(entry: Path) -> str:
    if entry.is_symlink():
        return f"{entry.name} -> {entry.readlink()}"
    if entry.is_dir():
        return f"{entry.name}/"
    content = entry.read_text().removesuffix("\n").replace("\n", "\\n")
    return f"{entry.name} = {content}".rstrip()


def load_tree(text: str, root: Path) -> None:
    """Lay the tree out below ``root``; raises ValueError for a line that says nothing."""
    folder = root
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            folder = root / line.strip("[]")
            folder.mkdir(parents=True, exist_ok=True)
        elif " -> " in line:
            name, target = line.split(" -> ", 1)
            (folder / name).symlink_to(target)
        elif line.endswith("/"):
            (folder / line.rstrip("/")).mkdir()
        elif " =" in line:
            name, content = line.split(" =", 1)
            body = content.removeprefix(" ").replace("\\n", "\n")
            (folder / name).write_text(f"{body}\n" if body else "")
        elif line and not line.startswith("#"):
            raise ValueError(f"line {number} is no entry: {line!r}")
