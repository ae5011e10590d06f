from __future__ import annotations

import json
from typing import Any

import pytest

from agent.config.load import MAX_PROBLEMS, Loaded, RefusedPool, load_config
from agent.config.problems import Severity
from agent.config.schema import (
    AllocationPolicy,
    Criterion,
    HealthPolicy,
    PoolConfig,
    SelectorObject,
)
from agent.kinds import ACCELERATOR, NET_DEVICE

VENDOR = SelectorObject((Criterion("vendors", frozenset({"8086"})),))


def load(data: bytes | str, *, strict: bool = False) -> Loaded:
    raw = data.encode() if isinstance(data, str) else data
    return load_config(raw, source="f", default_prefix="intel.com", strict=strict)


def one(
    pool: dict[str, object] | None = None, /, *, strict: bool = False, **more: object
) -> Loaded:
    """A file with one pool, whose name and selectors are good unless given."""
    whole = {"resourceName": "r", "selectors": {"vendors": ["8086"]}, **(pool or {}), **more}
    return load(json.dumps({"resourceList": [whole]}), strict=strict)


def pool_of(loaded: Loaded) -> PoolConfig:
    assert loaded.problems == ()
    assert loaded.config is not None
    (pool,) = loaded.config.pools
    return pool


def messages(loaded: Loaded) -> list[str]:
    return [f"{p.severity}: {p.path}: {p.message}" for p in loaded.problems]


def test_a_pool_without_extras_has_the_defaults() -> None:
    assert pool_of(one()) == PoolConfig("r", "intel.com", selectors=(VENDOR,))


def test_every_key_of_a_pool_is_read() -> None:
    pool = pool_of(
        one(
            resourcePrefix="example.com",
            deviceType="accelerator",
            selectors=[{"vendors": ["8086"]}, {"drivers": ["vfio-pci"]}],
            excludeTopology=True,
            additionalInfo={"*": {"a": "1"}, "86:00.1": {"b": "2"}},
            health={"link": False, "recoveryHoldSeconds": 2.5},
            advertiseEmpty=True,
            allowInUse=True,
            allocationPolicy="spread",
        )
    )
    assert pool == PoolConfig(
        prefix="example.com",
        name="r",
        kind=ACCELERATOR,
        selectors=(VENDOR, SelectorObject((Criterion("drivers", frozenset({"vfio-pci"})),))),
        exclude_topology=True,
        additional_info={"*": {"a": "1"}, "0000:86:00.1": {"b": "2"}},
        health=HealthPolicy(link=False, recovery_hold_s=2.5),
        advertise_empty=True,
        allow_in_use=True,
        allocation_policy=AllocationPolicy.SPREAD,
    )


def test_criteria_come_in_the_order_of_the_table_and_options_apart() -> None:
    pool = pool_of(
        one(selectors={"needVhostNet": True, "isRdma": True, "drivers": ["iavf"], "vendors": ["1"]})
    )
    assert pool.selectors == (
        SelectorObject(
            (
                Criterion("vendors", frozenset({"0001"})),
                Criterion("drivers", frozenset({"iavf"})),
                Criterion("isRdma", wanted=True),
            ),
            is_rdma=True,
            need_vhost_net=True,
        ),
    )


def test_empty_lists_nulls_and_false_filter_nothing() -> None:
    selectors = {
        "vendors": ["8086"],
        "devices": [],
        "drivers": None,
        "isRdma": False,
        "needVhostNet": False,
        "vdpaType": "",
    }
    assert pool_of(one(selectors=selectors)).selectors == (VENDOR,)


def test_null_means_absent_except_for_a_value_of_additional_info_where_it_is_empty_as_in_go() -> (
    None
):
    pool = pool_of(
        one(
            resourcePrefix=None,
            deviceType=None,
            excludeTopology=None,
            additionalInfo={"*": None, "86:00.0": {"a": None}},
            health={"link": None},
            allocationPolicy=None,
            SelectorObj=None,
        )
    )
    assert pool == PoolConfig(
        "r", "intel.com", selectors=(VENDOR,), additional_info={"0000:86:00.0": {"a": ""}}
    )


def test_empty_strings_mean_the_default_as_in_go() -> None:
    pool = pool_of(one(resourcePrefix="", deviceType="", allocationPolicy=""))
    assert (pool.prefix, pool.kind) == ("intel.com", NET_DEVICE)
    assert pool.allocation_policy is AllocationPolicy.DEFAULT


def test_keys_match_in_any_case_at_every_level_of_ours() -> None:
    text = (
        '{"RESOURCELIST": [{"RESOURCENAME": "r", "SELECTORS": {"VENDORS": ["8086"]}, '
        '"HEALTH": {"LINK": false}, "additionalinfo": {"*": {"Token": "x", "token": "y"}}}]}'
    )
    loaded = load(text)
    assert {p.severity for p in loaded.problems} == {Severity.HINT}
    assert loaded.exit_code == 0
    assert loaded.config is not None
    (pool,) = loaded.config.pools
    assert pool.selectors == (VENDOR,)
    assert pool.health == HealthPolicy(link=False)
    assert pool.additional_info == {"*": {"Token": "x", "token": "y"}}


def test_the_last_of_equal_keys_wins_with_a_warning() -> None:
    text = (
        '{"resourceList": [{"resourceName": "r", '
        '"selectors": {"vendors": ["15b3"], "Vendors": ["8086"]}}]}'
    )
    loaded = load(text)
    assert messages(loaded) == [
        "warning: $.resourceList[0].selectors.Vendors: vendors is given twice, the last one is used"
    ]
    assert loaded.config is not None
    assert loaded.config.pools[0].selectors == (VENDOR,)


def test_is_rdma_beside_the_selectors_applies_to_every_object_without_its_own() -> None:
    objects = [{"vendors": ["8086"]}, {"vendors": ["1"], "isRdma": False}, {"vdpaType": "vhost"}]
    loaded = one(isRdma=True, selectors=objects)
    assert loaded.config is not None
    assert [s.is_rdma for s in loaded.config.pools[0].selectors] == [True, False, False]
    assert Criterion("isRdma", wanted=True) in loaded.config.pools[0].selectors[0].criteria


def test_strict_turns_warnings_into_errors_and_keeps_hints() -> None:
    loose, strict = one(isRdma=True), one(isRdma=True, strict=True)
    assert (loose.exit_code, strict.exit_code) == (0, 2)
    assert strict.refused == (RefusedPool(0, "intel.com/r"),)
    hinted = one(strict=True, selectors={"pciaddresses": ["86:00.0"]})
    assert (hinted.exit_code, [p.severity for p in hinted.problems]) == (0, [Severity.HINT])


def test_with_strict_a_warning_outside_all_pools_refuses_the_file() -> None:
    text = (
        '{"comment": "x", "resourceList": [{"resourceName": "r", "selectors": {"vendors": ["1"]}}]}'
    )
    assert load(text).config is not None
    assert load(text, strict=True).config is None


def test_valid_pools_are_served_beside_invalid_ones() -> None:
    text = json.dumps(
        {
            "resourceList": [
                {"resourceName": "bad", "selectors": {"vendors": [8086]}},
                {"resourceName": "good", "selectors": {"vendors": ["8086"]}},
            ]
        }
    )
    loaded = load(text)
    assert loaded.config is not None
    assert [p.name for p in loaded.config.pools] == ["good"]
    assert loaded.refused == (RefusedPool(0, "intel.com/bad"),)
    assert (loaded.usable, loaded.exit_code) == (True, 2)
    assert [(p.pool, p.resource) for p in loaded.errors] == [(0, "intel.com/bad")]


def test_a_file_without_a_valid_pool_is_not_usable() -> None:
    loaded = one(selectors=None)
    assert loaded.config is not None
    assert not loaded.usable


def test_a_configuration_without_pools_means_an_idle_agent() -> None:
    loaded = load('{"resourceList": []}')
    assert (loaded.usable, loaded.exit_code, loaded.problems) == (True, 0, ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty; a configuration without pools is"),
        (b" \n\t ", "the file is empty; a configuration without pools is"),
        (b"\xef\xbb\xbf", "the file is empty; a configuration without pools is"),
        (b"{}", '"resourceList" is missing'),
        (b"null", 'found null, wanted an object with "resourceList"'),
        (b"[]", 'found an empty list, wanted an object with "resourceList"'),
        (b'"x"', 'found the string "x", wanted an object with "resourceList"'),
        (b"17", 'found the number 17, wanted an object with "resourceList"'),
        (b'{"resourceList": null}', "resourceList: found null, wanted a list"),
        (b'{"resourceList": {}}', "resourceList: found an empty object, wanted a list"),
        (b'{"resourceList": "x"}', 'resourceList: found the string "x", wanted a list'),
        ('{"resourceList": []}'.encode("utf-16"), "the file is UTF-16: save it as UTF-8"),
        ('{"resourceList": []}'.encode("utf-32"), "the file is UTF-32: save it as UTF-8"),
        ('{"resourceList": []}'.encode("utf-16-le"), "the file holds NUL bytes: UTF-16 or binary"),
        (b'{"a": "caf\xe9"}', "byte 0xe9 is not UTF-8: save the file as UTF-8"),
        (b'{"a": "\x00"}', "the file holds a NUL byte: it is binary or damaged"),
        (b"\x7fELF\x02\x01\x01\x00", "the file holds a NUL byte: it is binary or damaged"),
        (b"\x1f\x8b\x08\x00", "the file is compressed (gzip), expected JSON text"),
        (b"\x89PNG\r\n\x1a\n", "byte 0x89 is not UTF-8: save the file as UTF-8"),
        (b"[" * 10_000_000, "nested more than 100 levels deep"),
        (b'{"resourceList": [NaN]}', "NaN is not JSON, expected a number or a string"),
    ],
)
def test_an_invalid_file_is_refused_as_a_whole_with_one_sentence(data: bytes, message: str) -> None:
    loaded = load(data)
    (problem,) = loaded.problems
    assert problem.message.startswith(message)
    assert (problem.severity, problem.pool) == (Severity.ERROR, None)
    assert (loaded.config, loaded.usable, loaded.exit_code) == (None, False, 2)


def test_the_place_of_a_wrong_byte_is_reported() -> None:
    loaded = load('{\n  "é": "'.encode() + b"\xff" + b'"}')
    assert (loaded.problems[0].line, loaded.problems[0].column) == (2, 9)


def test_a_byte_order_mark_is_accepted_and_does_not_change_columns() -> None:
    assert load(b'\xef\xbb\xbf{"resourceList": []}').usable
    assert load(b"\xef\xbb\xbf{x").problems[0].column == 2


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ({"resourceName": 5}, '.resourceName: found the number 5, wanted a string: write "5"'),
        ({"resourceName": ""}, ".resourceName: resourceName is missing"),
        ({"resourceName": None}, ": resourceName is missing"),
        ({"resourcePrefix": ["x"]}, ".resourcePrefix: found a list, wanted a string"),
        ({"deviceType": 1}, '.deviceType: found the number 1, wanted a string: write "1"'),
        (
            {"deviceType": "acelerator"},
            (
                '.deviceType: unknown device type "acelerator", allowed: netDevice, accelerator, '
                "auxNetDevice, did you mean accelerator?"
            ),
        ),
        (
            {"deviceType": "vfio"},
            '.deviceType: "vfio" is of the v2 layout: write netDevice and "drivers": ["vfio-pci"]',
        ),
        ({"selectors": "x"}, '.selectors: found the string "x", wanted an object or a list'),
        ({"selectors": [[]]}, ".selectors[0]: found an empty list, wanted an object"),
        ({"selectors": []}, ".selectors: found an empty list; one empty object in it"),
        ({"selectors": [None]}, ".selectors: found a list of nothing but null; one empty object"),
        (
            {"selectors": {"vendors": {}}},
            ".selectors.vendors: found an empty object, wanted a list of strings",
        ),
        (
            {"selectors": {"vendors": ["8086", True]}},
            ".selectors.vendors[1]: found the boolean true, wanted a string",
        ),
        *(
            (
                {"deviceType": "accelerator", "selectors": {"classes": [number]}},
                f'.selectors.classes[0]: found the number {number}, wanted a string: write "{fix}"',
            )
            for number, fix in (
                (2880, "0b40"),
                (264, "0108"),
                (1200, "1200"),
                (12, "12"),
                (120000, "120000"),
                (734208, "0b3400"),
                (20000, "20000"),
                (-1, "-1"),
                (12.5, "12.5"),
            )
        ),
        *(
            (
                {"selectors": {key: [number]}},
                f'.selectors.{key}[0]: found the number {number}, wanted a string: write "{fix}"',
            )
            for key, number, fix in (
                ("vendors", 8086, "8086"),
                ("vendors", 32902, "8086"),
                ("devices", 65536, "65536"),
                ("pKeys", 65535, "ffff"),
            )
        ),
        (
            {"selectors": {"isRdma": 1}},
            ".selectors.isRdma: found the number 1, wanted true or false",
        ),
        (
            {"selectors": {"vdpaType": ["vhost"]}},
            '.selectors.vdpaType: found a list, wanted one of "vhost" or "virtio"',
        ),
        ({"excludeTopology": "true"}, '.excludeTopology: found the string "true", wanted true or'),
        ({"additionalInfo": []}, ".additionalInfo: wanted an object of objects"),
        ({"additionalInfo": {"*": "x"}}, '.additionalInfo["*"]: wanted an object of strings'),
        ({"health": True}, ".health: found the boolean true, wanted an object"),
        (
            {"health": {"recoveryHoldSeconds": 3601}},
            ".health.recoveryHoldSeconds: found the number 3601, wanted a number from 0 to 3600",
        ),
        (
            {"health": {"recoveryHoldSeconds": True}},
            ".health.recoveryHoldSeconds: found the boolean true, wanted a number from 0 to 3600",
        ),
        ({"allocationPolicy": 0}, '.allocationPolicy: found the number 0, wanted one of "packed"'),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_error_of_its_pool(
    pool: dict[str, object], expected: str
) -> None:
    loaded = one(pool)
    (message,) = messages(loaded)
    assert message.startswith(f"error: $.resourceList[0]{expected}")
    assert loaded.refused[0].index == 0


def test_infinity_is_not_a_hold_time() -> None:
    text = (
        '{"resourceList": [{"resourceName": "r", "selectors": {"vendors": ["1"]}, '
        '"health": {"recoveryHoldSeconds": 1e999}}]}'
    )
    assert messages(load(text))[0].endswith("found the number inf, wanted a number from 0 to 3600")


@pytest.mark.parametrize("key", ["*", "86:00.0", "0000:86:00.0", "mlx5_core.sf.4", "10000:e1:00.0"])
def test_additional_info_is_keyed_by_star_address_or_auxiliary_name(key: str) -> None:
    assert one(additionalInfo={key: {}}).problems == ()


def test_two_spellings_of_one_address_are_joined_with_a_warning() -> None:
    loaded = one(additionalInfo={"86:00.0": {"a": "1", "b": "1"}, "0000:86:00.0": {"b": "2"}})
    assert [p.severity for p in loaded.problems] == [Severity.WARNING]
    assert loaded.config is not None
    assert loaded.config.pools[0].additional_info == {"0000:86:00.0": {"a": "1", "b": "2"}}


def test_values_of_additional_info_are_never_shown() -> None:
    loaded = one(
        additionalInfo={"*": {"token": ["s3cret"]}, "x": {"y": "s3cret"}, "86:00.0": "s3cret"}
    )
    assert [str(p.severity) for p in loaded.problems] == ["error", "warning", "error"]
    assert "s3cret" not in "".join(loaded.lines())


@pytest.mark.parametrize(
    "name", ["a", "A1", "nics_a", "bf3-p0-vfs", "a.b", "x" * 63, "0", "a--b", "a__b"]
)
def test_names_that_kubernetes_takes_are_accepted(name: str) -> None:
    assert pool_of(one(resourceName=name)).name == name


@pytest.mark.parametrize("name", ["-a", "a-", "_a", ".a", "a b", "é", "a" * 64, "a/b", "a\n"])
def test_names_that_kubernetes_refuses_are_errors(name: str) -> None:
    loaded = one(resourceName=name)
    assert [p.path for p in loaded.errors] == ["$.resourceList[0].resourceName"]


@pytest.mark.parametrize(
    "prefix", ["vendorx", "intel.com", "a-b.example.com", ".".join(["x" * 60] * 4)]
)
def test_prefixes_that_kubernetes_takes_are_accepted(prefix: str) -> None:
    assert pool_of(one(resourcePrefix=prefix)).prefix == prefix


@pytest.mark.parametrize("prefix", ["3com.io", "0.example.com", "0.1"])
def test_a_prefix_that_is_not_a_cdi_vendor_is_accepted_with_a_hint(prefix: str) -> None:
    loaded = one(resourcePrefix=prefix)
    (hint,) = loaded.problems
    assert loaded.config is not None
    assert [p.prefix for p in loaded.config.pools] == [prefix]
    assert (hint.severity, hint.path) == (Severity.HINT, "$.resourceList[0].resourcePrefix")
    assert "with --use-cdi" in hint.message


@pytest.mark.parametrize("prefix", ["3com.io", "0.1", "a", "7"])
@pytest.mark.parametrize("is_default", [True, False])
def test_a_pool_without_a_valid_cdi_name_is_refused_with_use_cdi(
    prefix: str, *, is_default: bool
) -> None:
    own = {} if is_default else {"resourcePrefix": prefix}
    good = {"resourceName": "good", "resourcePrefix": "x.io", "selectors": {"vendors": ["8086"]}}
    pools = [{"resourceName": "bad", "selectors": {"vendors": ["8086"]}, **own}, good]
    text = json.dumps({"resourceList": pools}).encode()
    default = prefix if is_default else "intel.com"
    loaded = load_config(text, source="f", default_prefix=default, cdi=True)
    assert loaded.config is not None
    assert [p.resource for p in loaded.config.pools] == ["x.io/good"]
    assert loaded.refused == (RefusedPool(0, f"{prefix}/bad", only_cdi=True),)
    (error,) = loaded.errors
    assert "give the pool another resourcePrefix, or run without --use-cdi" in error.message


@pytest.mark.parametrize(("vendor", "usable"), [("8086", True), (5, False)])
def test_a_file_whose_pools_are_valid_except_for_their_cdi_names_is_usable_and_serves_nothing(
    vendor: object, *, usable: bool
) -> None:
    wanted = {"resourceName": "a", "resourcePrefix": "3com.io", "selectors": {"vendors": [vendor]}}
    text = json.dumps({"resourceList": [wanted]}).encode()
    loaded = load_config(text, source="f", default_prefix="x.io", cdi=True)
    assert loaded.config is not None
    assert (loaded.config.pools, loaded.usable, loaded.exit_code) == ((), usable, 2)


def test_a_default_prefix_that_is_not_a_cdi_vendor_is_reported_once_for_all_pools() -> None:
    pools = [{"resourceName": n, "selectors": {"vendors": ["8086"]}} for n in ("a", "b")]
    text = json.dumps({"resourceList": pools})
    loaded = load_config(text.encode(), source="f", default_prefix="3com.io")
    (hint,) = loaded.problems
    assert hint.severity is Severity.HINT
    assert hint.message.endswith("(2 times)")


@pytest.mark.parametrize(
    "prefix",
    [
        "Intel.com",
        "intel_com",
        "intel.com/x",
        ".com",
        "a..b",
        "kubernetes.io",
        "x.kubernetes.io",
        "requests.intel.com",
        "x" * 64,
        ".".join(["x" * 61] * 4),
        " ",
    ],
)
def test_prefixes_that_kubernetes_refuses_are_errors(prefix: str) -> None:
    loaded = one(resourcePrefix=prefix)
    assert [p.path for p in loaded.errors] == ["$.resourceList[0].resourcePrefix"]


def test_an_error_in_the_default_prefix_names_the_argument() -> None:
    text = '{"resourceList": [{"resourceName": "r", "selectors": {"vendors": ["1"]}}]}'
    loaded = load_config(text.encode(), source="f", default_prefix="Bad")
    assert "the default (--resource-prefix)" in loaded.errors[0].message


def test_a_resource_defined_twice_is_refused_everywhere() -> None:
    pools = [
        {"resourceName": "a", "selectors": {"vendors": ["8086"]}},
        {"resourceName": "b", "selectors": {"vendors": ["8086"]}},
        {"resourceName": "a", "resourcePrefix": "intel.com", "selectors": {"vendors": [1]}},
        {"resourceName": "a", "resourcePrefix": "other.com", "selectors": {"vendors": ["8086"]}},
    ]
    loaded = load(json.dumps({"resourceList": pools}))
    assert loaded.config is not None
    assert [p.resource for p in loaded.config.pools] == ["intel.com/b", "other.com/a"]
    assert [r.index for r in loaded.refused] == [0, 2]


def test_the_printed_form_of_a_v2_layout_loads_without_a_message() -> None:
    old = {
        "resourceList": [
            {"resourceName": "a", "rootDevices": ["02:00.0"], "sriovMode": True},
            {"resourceName": "b", "rootDevices": ["02:00.1"], "deviceType": "uio"},
            {
                "resourceName": "c",
                "resourcePrefix": "x.org",
                "RootDevices": ["02:00.2"],
                "sriovmode": True,
                "deviceType": "vfio",
            },
            {"resourceName": "d", "sriovMode": True},
            {
                "resourceName": "e",
                "rootDevices": ["02:00.3"],
                "deviceType": "accelerator",
                "excludeTopology": True,
            },
            {"resourceName": "f", "rootDevices": ["02:00.4"], "additionalInfo": {"*": {"t": "s"}}},
        ]
    }
    loaded = load(json.dumps(old))
    assert len(loaded.errors) == 6
    (advice,) = (p.advice for p in loaded.problems if p.advice)
    modern = load(advice.removeprefix("in today's form:\n"))
    assert modern.problems == ()
    assert modern.config is not None
    assert [
        (p.resource, [c.key for c in p.selectors[0].criteria]) for p in modern.config.pools
    ] == [
        ("intel.com/a", ["rootDevices"]),
        ("intel.com/b", ["pciAddresses", "drivers"]),
        ("x.org/c", ["rootDevices", "drivers"]),
        ("intel.com/e", ["pciAddresses"]),
        ("intel.com/f", ["pciAddresses"]),
    ]
    assert modern.config.pools[-2].kind is ACCELERATOR
    assert modern.config.pools[-2].exclude_topology
    assert loaded.errors[-1].message.endswith("; its additionalInfo is not shown below: keep it")


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("vdpaType", "vhost", '"vdpaType": "vhost"'),
        ("vdpaType", 7, '"vdpaType": "..."'),
        ("vendors", "8086", '"vendors": ["8086"]'),
        ("vendors", ["1", "2", "3", "4", "5"], '"vendors": [...]'),
        ("needVhostNet", "yes", '"needVhostNet": true'),
    ],
)
def test_a_selector_beside_selectors_is_shown_in_its_correct_place(
    key: str,
    value: Any,  # noqa: ANN401 - whatever a file may hold
    shown: str,
) -> None:
    (said,) = messages(one(**{key: value}))
    assert said.endswith(f"{key} is not read at this level: move it into selectors, {shown}")


def test_resources_with_the_same_environment_variable_are_reported() -> None:
    pools = [{"resourceName": n, "selectors": {"vendors": ["8086"]}} for n in ("x", "y", "x_info")]
    (said,) = messages(load(json.dumps({"resourceList": pools})))
    assert said.endswith("since both set PCIDEVICE_INTEL_COM_X_INFO")


def test_a_kind_that_is_not_text_is_not_a_manifest() -> None:
    (said,) = messages(load('{"kind": {"a": 1}, "apiVersion": "v1"}'))
    assert "manifest" not in said
    assert "Object(" not in said


def test_a_repeated_spelling_causes_one_hint() -> None:
    pools = [
        {"resourceName": f"r{i}", "selectors": {"pciaddresses": [f"86:00.{i}"]}} for i in range(3)
    ]
    (hint,) = load(json.dumps({"resourceList": pools})).problems
    assert (hint.pool, hint.message) == (0, '"pciaddresses" is read as pciAddresses (3 times)')


def test_field_names_in_gos_spelling_need_no_hint() -> None:
    assert one(selectors={"Vendors": ["8086"], "IsRdma": False, "PKeys": []}).problems == ()


def test_a_long_list_of_unknown_keys_of_one_object_is_shortened() -> None:
    loaded = one(selectors={"vendors": ["8086"]} | {f"k{i}": 1 for i in range(500)})
    assert len(loaded.problems) == 11
    assert any(p.message == "490 more unknown keys, not read" for p in loaded.problems)


def test_of_a_file_with_many_errors_the_first_ones_are_reported() -> None:
    loaded = load(json.dumps({"resourceList": [{"resourceName": "-"}] * 1000}))
    assert len(loaded.problems) == MAX_PROBLEMS + 1
    assert "more problems are not listed" in loaded.problems[-1].message
    assert len(loaded.refused) == 1000


def test_control_characters_of_a_file_never_reach_the_terminal() -> None:
    evil = "\x1b[2J\u202e"
    loaded = load(
        json.dumps(
            {
                evil: 1,
                "resourceList": [
                    {"resourceName": evil, "deviceType": evil, "rootDevices": [evil]},
                    {
                        "resourceName": f"{evil}/x",
                        "resourcePrefix": f"A{evil}",
                        evil: 1,
                        "selectors": {"vendors": [evil], "pfNames": [f"{evil}#x"], evil: [evil]},
                        "additionalInfo": {evil: {}},
                    },
                ],
            }
        )
    )
    assert len(loaded.problems) >= 6
    assert all(line.replace("\n", "").isprintable() for line in loaded.lines())


def test_paths_use_the_file_s_own_spelling() -> None:
    text = '{"ResourceList": [{"RESOURCEname": "r", "Selectors": [{"VENDORS": ["zz"], "a b": 1}]}]}'
    assert [p.path for p in load(text).problems if p.severity is not Severity.HINT] == [
        "$.ResourceList[0].Selectors[0].VENDORS[0]",
        '$.ResourceList[0].Selectors[0]["a b"]',
    ]


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("vendors", "8086", "80866"),
        ("vendors", "8086", ""),
        ("vendors", "8086", None),
        ("devices", "154c", "0000:3b:01.0"),
        ("drivers", "vfio-pci", ""),
        ("drivers", "vfio-pci", "vfio-pci,iavf"),
        ("pciAddresses", "0000:af:01.0", "0000:zz:00.0"),
        ("acpiIndexes", "101", "x"),
        ("rootDevices", "0000:af:00.0#0", "ens9"),
        ("pfNames", "ens2f0#0", "ens9#x"),
        ("pfNames", "ens2f0#0", ""),
        ("pfNames", "ens2f0#0", "ens1f0,ens1f1"),
        ("linkTypes", "ether", "token-ring"),
        ("ddpProfiles", "GTPv1", " "),
        ("pKeys", "0x8001", "0x18001"),
    ],
)
def test_a_value_that_matches_nothing_is_a_warning_and_the_others_are_used(
    key: str, good: str, bad: str | None
) -> None:
    alone, beside = one(selectors={key: [good]}), one(selectors={key: [bad, good]})
    assert alone.config is not None
    assert beside.config == alone.config
    (problem,) = beside.problems
    assert problem.severity is Severity.WARNING
    assert problem.path == f"$.resourceList[0].selectors.{key}[0]"
    assert problem.message.endswith(f"; not read, the other values of {key} are")
    assert one(selectors={key: [bad, good]}, strict=True).refused == (
        RefusedPool(0, "intel.com/r"),
    )


@pytest.mark.parametrize(
    ("written", "served"),
    [("ens2f0#0-1,", "ens2f0#0-1"), ("ens2f0#0-1, 3", "ens2f0#0-1"), ("ens2f0#+1", "ens2f0#1")],
)
def test_valid_parts_of_a_range_are_used(written: str, served: str) -> None:
    loaded = one(selectors={"pfNames": [written]})
    assert loaded.config == one(selectors={"pfNames": [served]}).config
    assert {p.severity for p in loaded.problems} <= {Severity.WARNING}
    assert bool(loaded.problems) == ("," in written)


def test_a_range_that_ends_beyond_every_index_is_served_with_a_warning() -> None:
    loaded = one(selectors={"pfNames": ["ens2f0#0-99999999999"]})
    assert loaded.config is not None
    assert loaded.exit_code == 0
    assert [p.severity for p in loaded.problems] == [Severity.WARNING]


@pytest.mark.parametrize(
    "selectors",
    [
        {"vendors": [""]},
        {"vendors": [None]},
        {"pfNames": ["ens2f0#2-"], "vendors": ["8086"]},
        {"drivers": [" ", None]},
        {"pfNames": ["ens1f0,ens1f1"]},
    ],
)
def test_a_selector_none_of_whose_values_can_match_refuses_the_pool(
    selectors: dict[str, object],
) -> None:
    loaded = one(selectors=selectors)
    assert loaded.refused == (RefusedPool(0, "intel.com/r"),)
    assert {p.severity for p in loaded.problems} == {Severity.ERROR}


def test_an_object_that_matches_nothing_does_not_affect_the_other_objects_of_its_pool() -> None:
    loaded = one(selectors=[{"vendors": [""], "drivers": ["iavf"]}, {"vendors": ["8086"]}])
    assert loaded.config is not None
    dead, alive = loaded.config.pools[0].selectors
    assert alive == VENDOR
    assert dead.criteria == (
        Criterion("vendors", frozenset()),
        Criterion("drivers", frozenset({"iavf"})),
    )
    assert [(str(p.severity), p.path) for p in loaded.problems] == [
        ("warning", "$.resourceList[0].selectors[0]"),
        ("warning", "$.resourceList[0].selectors[0].vendors[0]"),
    ]
    assert loaded.problems[0].message == (
        "no value of vendors can match: this selector object matches nothing, "
        "the others of the pool are served"
    )


def test_a_misspelt_vdpa_type_makes_its_object_match_nothing() -> None:
    loaded = one(selectors=[{"vdpaType": "vhots"}, {"vendors": ["8086"]}])
    assert loaded.config is not None
    dead, alive = loaded.config.pools[0].selectors
    assert alive == VENDOR
    assert (dead.criteria, dead.vdpa_type) == ((Criterion("vdpaType", ""),), "")
    assert {p.severity for p in loaded.problems} == {Severity.WARNING}
    assert one(selectors={"vdpaType": "vhots"}).refused == (RefusedPool(0, "intel.com/r"),)


def test_a_key_of_additional_info_that_names_no_device_leaves_the_pool_working() -> None:
    loaded = one(additionalInfo={"*": {"a": "1"}, "ens1f0": {"b": "2"}})
    assert loaded.config is not None
    assert loaded.config.pools[0].additional_info == {"*": {"a": "1"}}
    assert [p.severity for p in loaded.problems] == [Severity.WARNING]


@pytest.mark.parametrize(("netdev", "pci"), [("mlx4_en", "mlx4_core"), ("mlx5_en", "mlx5_core")])
def test_the_driver_of_a_netdev_is_distinguished_from_that_of_the_function(
    netdev: str, pci: str
) -> None:
    (problem,) = one(selectors={"drivers": [netdev]}).problems
    assert problem.severity is Severity.WARNING
    assert problem.message == (
        f"{netdev} is the driver of the netdev; the driver of the PCI function is {pci}: "
        f'write "{pci}"'
    )
