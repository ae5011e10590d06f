"""Small faults in a source file: each is one change of text that still compiles.

Kinds: comparisons and their boundaries, ``and`` and ``or``, a dropped ``not``, a negated condition,
other constants, other arithmetic, a dropped statement. Annotations, type variables, docstrings,
imports and log lines are left as they are: a change there is no fault of behaviour.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

import attrs

_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: (r"<", ("<=", ">=")),
    ast.LtE: (r"<=", ("<", ">")),
    ast.Gt: (r">", (">=", "<=")),
    ast.GtE: (r">=", (">", "<")),
    ast.Eq: (r"==", ("!=",)),
    ast.NotEq: (r"!=", ("==",)),
    ast.Is: (r"\bis\b", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.Div: (r"/", "*"),
    ast.FloorDiv: (r"//", "*"),
    ast.BitAnd: (r"&", "|"),
    ast.BitOr: (r"\|", "&"),
}
_DROPPED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Break, ast.Continue, ast.Delete)


@attrs.frozen(order=True)
class Fault:
    """One change of a file: the text from ``start`` to ``end`` (bytes) becomes ``after``."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """The file with the fault in it."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file}:{self.line}: {before} -> {after}"


def faults_of(file: str, source: bytes) -> tuple[Fault, ...]:
    """Every fault of a file that compiles, in the order of the text."""
    found = {*_Finder(file, source).faults()}
    return tuple(fault for fault in sorted(found) if _compiles(fault.applied(source)))


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "fault", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


_OF_TYPES = ("TypeVar(", "tuple[", "Callable[", "Collection[", "Mapping[")


class _Finder:
    def __init__(self, file: str, source: bytes) -> None:
        self._file = file
        self._source = source
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._line_starts = starts

    def faults(self) -> Iterator[Fault]:
        """All of them, in no order."""
        for node in self._nodes(ast.parse(self._source)):
            yield from self._of(node)

    def _nodes(self, node: ast.AST) -> Iterator[ast.AST]:
        """What runs: no annotations, types, imports, docstrings, decorators, log lines."""
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_log_line(node):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(_OF_TYPES):
            return
        yield node
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._nodes(child)

    def _of(self, node: ast.AST) -> Iterator[Fault]:
        yield from self._of_expression(node)
        if isinstance(node, _DROPPED):
            yield self._changed(node, "pass")
        elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
            yield self._changed(node, "return None")
        elif isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(
            node.test, ast.Compare | ast.UnaryOp | ast.Constant
        ):
            yield self._changed(node.test, f"(not ({self._text(node.test)}))")

    def _of_expression(self, node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.Compare():
                yield from self._comparisons(node)
            case ast.BoolOp():
                is_and = isinstance(node.op, ast.And)
                pattern, after = (r"\band\b", "or") if is_and else (r"\bor\b", "and")
                for left, right in itertools.pairwise(node.values):
                    yield from self._between(left, right, pattern, (after,))
            case ast.BinOp() if type(node.op) in _ARITHMETIC and not _is_text(node):
                pattern, after = _ARITHMETIC[type(node.op)]
                yield from self._between(node.left, node.right, pattern, (after,))
            case ast.UnaryOp(op=ast.Not()):
                yield self._changed(node, self._text(node.operand))
            case ast.Constant():
                yield from self._constants(node)

    def _comparisons(self, node: ast.Compare) -> Iterator[Fault]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            pattern, afters = _COMPARISONS[type(operator)]
            yield from self._between(left, right, pattern, afters)
            left = right

    def _constants(self, node: ast.Constant) -> Iterator[Fault]:
        value = node.value
        if isinstance(value, bool):
            yield self._changed(node, str(not value))
        elif isinstance(value, int):
            yield self._changed(node, str(value + 1))
        elif isinstance(value, float):
            yield self._changed(node, repr(value * 2 + (value == 0)))

    def _between(
        self, left: ast.expr, right: ast.expr, pattern: str, afters: tuple[str, ...]
    ) -> Iterator[Fault]:
        """Changes of the operator between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        found = re.search(pattern.encode(), self._source[start:end])
        if found is not None:
            for after in afters:
                yield self._fault(start + found.start(), start + found.end(), after)

    def _changed(self, node: ast.stmt | ast.expr, after: str) -> Fault:
        return self._fault(*self._span(node), after)

    def _fault(self, start: int, end: int, after: str) -> Fault:
        line = self._source.count(b"\n", 0, start) + 1
        before = self._source[start:end].decode()
        return Fault(self._file, line, start, end, before, after)

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset


def _is_log_line(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(("logs.", "await logs."))


def _is_text(node: ast.BinOp) -> bool:
    """Whether an addition joins texts: another operator is a TypeError that proves nothing."""
    operands = (node.left, node.right)
    return any(
        isinstance(o, ast.JoinedStr) or (isinstance(o, ast.Constant) and isinstance(o.value, str))
        for o in operands
    )
