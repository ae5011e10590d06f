from __future__ import annotations

import argparse
import shlex

import pytest

from agent import __version__
from agent.cli.arguments import COMMANDS, build_parser, parse
from agent.cli.dispatch import run
from agent.errors import UsageError


def told(line: str) -> dict[str, object]:
    return vars(parse(shlex.split(line)))


def options(command: str) -> list[argparse.Action]:
    subparsers = next(
        a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)
    )
    return list(subparsers.choices[command]._actions)


def test_without_any_argument_the_agent_runs_with_the_go_plugins_defaults() -> None:
    made = told("")
    assert made["command"] == "run"
    assert made["config_file"] == "/etc/pcidp/config.json"
    assert made["resource_prefix"] == "intel.com"
    assert made["kubelet_dir"] == "/var/lib/kubelet"
    assert made["use_cdi"] is False
    assert (made["log_level"], made["log_format"]) == ("info", "text")
    assert (made["host_root"], made["netlink"], made["rescan_seconds"]) == ("/", "auto", 60.0)
    assert (made["registration"], made["cdi_mode"]) == ("auto", "field")


def test_the_operators_own_command_line_is_accepted() -> None:
    made = told(
        "--log-level=10 --resource-prefix=openshift.io --config-file=/etc/pcidp/node-1 "
        "--use-cdi --log-dir=/var/log/sriov"
    )
    assert made["command"] == "run"
    assert made["log_level"] == "10"
    assert made["resource_prefix"] == "openshift.io"
    assert made["config_file"] == "/etc/pcidp/node-1"
    assert made["use_cdi"] is True
    assert made["log_dir"] == "/var/log/sriov"


@pytest.mark.parametrize(
    "spelling",
    [
        "--config-file=X",
        "--config-file X",
        "-config-file=X",
        "-config-file X",
        "--config_file=X",
        "-config_file X",
        "run --config-file X",
        "run -config-file=X",
        "--use-cdi -config-file X",
        "--config-file=first --config-file X",
    ],
)
def test_a_value_may_be_given_in_every_way_that_go_allows(spelling: str) -> None:
    assert told(spelling)["config_file"] == "X"


def test_a_value_may_have_any_content() -> None:
    assert told("--config-file=a=b=c")["config_file"] == "a=b=c"
    assert told("-config-file 'two words'")["config_file"] == "two words"
    assert parse(["--config-file=a\nb"]).config_file == "a\nb"


@pytest.mark.parametrize(
    ("spelling", "on"),
    [
        ("", False),
        ("--use-cdi", True),
        ("-use-cdi", True),
        ("--use_cdi", True),
        ("--use-cdi=true", True),
        ("-use-cdi=True", True),
        ("-use-cdi=T", True),
        ("-use-cdi=1", True),
        ("--use-cdi=false", False),
        ("-use-cdi=F", False),
        ("-use-cdi=0", False),
        ("--use-cdi --use-cdi=false", False),
        ("--use-cdi=false --use-cdi", True),
        ("--use-cdi --use-cdi", True),
    ],
)
def test_a_switch_may_have_a_value_and_the_last_one_counts(spelling: str, on: bool) -> None:  # noqa: FBT001
    assert told(spelling)["use_cdi"] is on


@pytest.mark.parametrize("spelling", ["--use-cdi=maybe", "-use-cdi=", "--strict=yes"])
def test_a_switch_with_another_value_is_refused(spelling: str) -> None:
    with pytest.raises(UsageError, match="takes true or false"):
        told(spelling)


@pytest.mark.parametrize(
    "spelling",
    [
        "--log_dir=/var/log",
        "-log_dir /var/log",
        "-logtostderr",
        "-logtostderr=true",
        "--alsologtostderr=false",
        "-stderrthreshold=INFO",
        "--stderrthreshold 2",
        "-vmodule=main=4",
        "-log_backtrace_at=x.go:1",
        "-log_file=/x -log_file_max_size=10",
        "-log_link=/var/log/link",
        "-logbuflevel=-1",
        "-logbuflevel -1",
        "-vmodule main=4 -log_backtrace_at x.go:1",
        "-alsologtostderr -v=3",
        "--add_dir_header --skip_headers --one_output",
    ],
)
def test_the_log_flags_of_the_go_plugin_are_accepted(spelling: str) -> None:
    assert told(spelling)["command"] == "run"


@pytest.mark.parametrize("spelling", ["-v=4", "-v 4", "-v4", "--v=4", "--v 4"])
def test_verbosity_is_accepted_in_every_spelling(spelling: str) -> None:
    assert told(spelling)["verbosity"] == "4"


@pytest.mark.parametrize(
    ("line", "passed_over"),
    [
        ("-config-file X surplus", ["surplus"]),
        ("-config-file X --use-cdi true", ["true"]),
        ("-config-file X -use-cdi true -resource-prefix=y.io", ["true", "-resource-prefix=y.io"]),
        ("-config-file X -use-cdi -- -resource-prefix=y.io", ["-resource-prefix=y.io"]),
        ("-config-file X -use-cdi - --no-such-thing", ["-", "--no-such-thing"]),
        ("-v 4 -config-file X -use-cdi", []),
    ],
)
def test_without_a_command_surplus_words_and_all_after_them_are_ignored_as_in_go(
    line: str, passed_over: list[str]
) -> None:
    made = told(line)
    assert made["passed_over"] == tuple(passed_over)
    assert (made["config_file"], made["resource_prefix"]) == ("X", "intel.com")
    assert made["use_cdi"] is ("use-cdi" in line)


def test_a_value_may_look_like_an_option_as_in_go() -> None:
    assert told("-config-file -logtostderr")["config_file"] == "-logtostderr"


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_an_empty_value_is_the_default(dashes: str) -> None:
    names = ("config-file", "resource-prefix", "log-level", "log-dir")
    made = told(" ".join(f"{dashes}{name}=" for name in names))
    assert made == told("")
    assert parse(["validate", "--config-file=", "--resource-prefix", ""]) == parse(["validate"])
    assert parse(["--config-file", "", "--resource-prefix", ""]) == parse([])


def test_a_negative_level_is_a_value_and_not_an_option() -> None:
    assert told("--log-level -1")["log_level"] == "-1"
    assert told("-log-level=-1")["log_level"] == "-1"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("--no-such-thing", "unrecognized arguments: --no-such-thing"),
        ("-no-such-thing=1", "unrecognized arguments: -no-such-thing=1"),
        ("--config", "unrecognized arguments: --config"),
        ("--conf=x", "unrecognized arguments: --conf=x"),
        ("--config-file", "expected one argument"),
        ("--cdi-mode=all", "invalid choice: 'all'"),
        ("--rescan-seconds=-1", "not a number of seconds"),
        ("--rescan-seconds=nan", "not a number of seconds"),
        ("--rescan-seconds=inf", "not a number of seconds"),
        ("--rescan-seconds=soon", "not a number of seconds"),
        ("--allocation-policy=best", "invalid choice: 'best'"),
        ("run --use-cdi true", "unrecognized arguments: true"),
        ("run -- more", "unrecognized arguments: "),
        ("-nonsense", "unrecognized arguments: -nonsense"),
        ("-config-file X -nonsense", "unrecognized arguments: -nonsense"),
        ("run more", "unrecognized arguments: more"),
        ("-helpme", "unrecognized arguments: -helpme"),
        ("-hostroot /x", "unrecognized arguments: -hostroot"),
        ("discover -outpt json", "invalid choice: 'utpt'"),
        ("discover --use-cdi", "unrecognized arguments: --use-cdi"),
        ("discover -o xml", "invalid choice: 'xml'"),
        ("validate a b", "unrecognized arguments: b"),
        ("explain", "the following arguments are required"),
    ],
)
def test_unknown_words_are_refused_and_named(spelling: str, message: str) -> None:
    with pytest.raises(UsageError, match="see sriov-agent") as refused:
        told(spelling)
    assert message in str(refused.value)


def test_an_unknown_command_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as refused:
        told("discovr")
    assert str(refused.value) == (
        f"there is no command 'discovr', did you mean discover? Commands: {', '.join(COMMANDS)}"
    )
    with pytest.raises(UsageError, match=r"there is no command 'xyz'\. Commands: run, "):
        told("xyz --use-cdi")


@pytest.mark.parametrize("line", ["--no-such-thing", "xyz", "--use-cdi=maybe", "validate a b"])
def test_a_usage_error_is_one_line_on_standard_error_and_exit_code_2(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(line)) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("sriov-agent: ")
    assert written.err.count("\n") == 1


@pytest.mark.parametrize("line", ["--help", "run --help"])
def test_help_is_as_wide_as_the_terminal(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = []
    for columns in ("70", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        with pytest.raises(SystemExit):
            parse(line.split())
        widths.append(max(map(len, capsys.readouterr().out.splitlines())))
    assert widths[0] <= 70
    assert 100 < widths[1] <= 200


@pytest.mark.parametrize("line", ["-h", "--help", "-help", "run -h", "run -help", "--use-cdi -h"])
def test_help_is_printed_and_is_no_error(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        told(line)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: sriov-agent")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        told(f"{command} --help")
    assert ended.value.code == 0
    assert f"usage: sriov-agent {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text_unless_its_choices_are_enough(command: str) -> None:
    assert [o for o in options(command) if not o.help and not o.choices] == []


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        told("--version")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_other_commands_accept_gos_spellings_too() -> None:
    made = told("discover -host-root=/x -config-file Y -o=json")
    assert (made["host_root"], made["config_file"], made["output"]) == ("/x", "Y", "json")
    assert told("discover")["config_file"] is None
    assert told("validate FILE -strict=true")["file"] == "FILE"
    assert told("validate -strict FILE")["strict"] is True
