"""No shell, and no program but the declared one: read off the source of the agent."""

from __future__ import annotations

import ast
from pathlib import Path

AGENT = Path(__file__).resolve().parents[3] / "agent"
DECLARED = {"host/ddptool.py"}
"""Modules that start a program: Intel's ddptool, for the selector ddpProfiles, if it is there."""
STARTERS = {"subprocess", "pty", "multiprocessing"}
OF_OS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
OF_ASYNCIO = {"create_subprocess_exec", "create_subprocess_shell"}
EVALUATORS = {"eval", "exec", "compile"}


def sources() -> dict[str, ast.Module]:
    """Every module of the agent by its path."""
    paths = sorted(AGENT.rglob("*.py"))
    return {str(p.relative_to(AGENT)): ast.parse(p.read_text()) for p in paths}


def starts_programs(tree: ast.Module) -> bool:
    """Whether a module imports or names anything that starts a program."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if {n.name.split(".")[0] for n in names} & STARTERS:
                return True
            case ast.ImportFrom(module=str(module), names=names):
                named = {n.name for n in names}
                if module.split(".")[0] in STARTERS:
                    return True
                if (module == "os" and named & OF_OS) or named & OF_ASYNCIO:
                    return True
            case ast.Attribute(value=ast.Name(id="os"), attr=attr):
                if attr in OF_OS or attr.startswith(("exec", "spawn")):
                    return True
            case ast.Attribute(attr=attr) if attr in OF_ASYNCIO | {"subprocess_exec"}:
                return True
    return False


def test_only_the_declared_modules_start_programs() -> None:
    assert {name for name, tree in sources().items() if starts_programs(tree)} == DECLARED


def test_programs_are_started_with_a_list_of_arguments_and_no_shell() -> None:
    for name in DECLARED:
        calls = [
            node
            for node in ast.walk(sources()[name])
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "subprocess"
        ]
        assert calls
        for call in calls:
            assert isinstance(call.args[0], ast.List)
            assert "shell" not in {keyword.arg for keyword in call.keywords}


def test_no_text_is_evaluated_or_unpickled() -> None:
    found = {
        (name, node.func.id)
        for name, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in EVALUATORS
    }
    imported = {
        (name, alias.name)
        for name, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in {"pickle", "marshal", "shelve", "yaml"}
    }
    assert found | imported == set()
