"""What happens to the agent during the soak: each actor is a thread with its own seeded dice."""

from __future__ import annotations

import ctypes
import http.client
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc

from tests.soak.world import HTTP_PORT, POOLS, SETTLES_WITHIN_S, VFS, World, resource
from tests.support.agent import AgentProcess
from tests.support.inside import CLONE_NEWNET
from tests.support.protocol import message

_EXPECTED = frozenset(
    {
        grpc.StatusCode.NOT_FOUND,  # the device left the pool meanwhile
        grpc.StatusCode.FAILED_PRECONDITION,  # it left the host
        grpc.StatusCode.UNAVAILABLE,  # kubelet hung up
        grpc.StatusCode.CANCELLED,
    }
)


class Actors:
    """All of them; ``done`` counts what they did, ``faults`` what must not have happened."""

    def __init__(self, world: World, agent: AgentProcess, seed: int) -> None:
        self.world = world
        self.agent = agent
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self.slowest_s = 0.0
        """The longest that kubelet waited for a device."""
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Set all actors to work."""
        for act, pause_s in (
            (self.change_vfs, 2.0),
            (self.flap_link, 0.5),
            (self.edit_config, 4.0),
            (self.trouble_kubelet, 12.0),
            (self.allocate, 0.1),
            (self.scrape, 0.5),
            (self.command, 6.0),
        ):
            thread = threading.Thread(target=self._run, args=(act, pause_s), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Let each finish what it does."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, act: Callable[[random.Random], None], pause_s: float) -> None:
        name = act.__name__
        dice = random.Random(f"{self._seed} {name}")  # noqa: S311 - to be repeated, not to be secret
        if name == "scrape":
            _enter_network(self.world.namespace.pid)
        while not self._stop.wait(pause_s * dice.uniform(0.5, 1.5)):
            try:
                with self.world.acting():
                    act(dice)
            except Exception as error:  # noqa: BLE001 - told at the end, with everything else
                self.faults.append(f"{name}: {error!r}")
            self.done[name] += 1

    def change_vfs(self, dice: random.Random) -> None:
        """The last VFs of a PF vanish, or come back."""
        number = dice.randrange(POOLS)
        if self.world.vf_count[number] == VFS:
            self.world.take_vfs(number, dice.randint(1, 64))
        else:
            self.world.put_back_vfs(number)

    def flap_link(self, dice: random.Random) -> None:
        """A cable is pulled or plugged in, sometimes many times at once."""
        number = dice.randrange(POOLS)
        for _ in range(dice.choice((1, 1, 1, 20))):
            self.world.set_link(number, up=not self.world.link_up[number])

    def edit_config(self, dice: random.Random) -> None:
        """A pool goes or comes, a file is broken for a while, a value changes."""
        world = self.world
        if dice.random() < 0.3:
            world.write_config(broken=True)
            time.sleep(0.2)
        elif dice.random() < 0.5 and len(world.configured) == POOLS:
            world.configured.remove(dice.randrange(1, POOLS))
        else:
            world.configured = list(range(POOLS))
        world.write_config(note=str(dice.random()))

    def trouble_kubelet(self, dice: random.Random) -> None:
        """Kubelet restarts, or loses one stream."""
        kubelet = self.world.kubelet
        if dice.random() < 0.5:
            kubelet.restart()
        elif live := sorted(kubelet.clients):
            with suppress(KeyError, AttributeError):  # lost by itself in this moment
                kubelet.drop_stream(dice.choice(live))

    def allocate(self, dice: random.Random) -> None:
        """A pod gets a device; from time to time all pods end."""
        world = self.world
        if dice.random() < 0.01:
            world.holders.clear()
            world.tell_holders()
            return
        name = resource(dice.randrange(POOLS))
        offered = world.kubelet.allocatable(name)
        if not offered:
            return
        device = dice.choice(offered)
        try:
            began = time.monotonic()
            answer = ask_for(world, name, device)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        except (KeyError, ValueError):  # kubelet restarts
            return
        except grpc.RpcError as error:
            if error.code() not in _EXPECTED:
                self.faults.append(f"Allocate: {error.code()} {error.details()}")
            return
        if answer.envs[f"PCIDEVICE_EXAMPLE_COM_{name[12:].upper()}"] != device:
            self.faults.append(f"Allocate of {device}: {dict(answer.envs)}")
        self.done["allocations"] += 1
        world.holders[device] = name
        world.tell_holders()

    def scrape(self, dice: random.Random) -> None:
        """What monitoring asks; a follower of events that leaves."""
        path = dice.choice(("/metrics", "/status", "/status?devices=0", "/readyz", "/events", "/"))
        client = http.client.HTTPConnection("127.0.0.1", HTTP_PORT, timeout=30)
        try:
            client.request("GET", path)
            reply = client.getresponse()
            reply.read(100 if path == "/events" else None)
            if reply.status not in {200, 503} or (reply.status == 503 and path != "/readyz"):
                self.faults.append(f"{path}: {reply.status}")
        finally:
            client.close()

    def command(self, dice: random.Random) -> None:
        """What people ask on the node."""
        pid = self.agent.process.pid
        words = dice.choice((("status",), ("status", "-o", "json"), ("explain", resource(0))))
        answer = subprocess.run(
            [
                *("nsenter", f"--mount=/proc/{pid}/ns/mnt", f"--net=/proc/{pid}/ns/net"),
                *("--wd=.", sys.executable, "-m", "agent", *words),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode not in {0, 1} or "Traceback" in answer.stderr:
            self.faults.append(f"{words}: {answer.returncode} {answer.stderr[-500:]}")


def ask_for(world: World, name: str, device: str) -> Any:  # noqa: ANN401 - made at run time
    """Allocate one device, with the patience of kubelet, which has no limit."""
    request = message("v1beta1.AllocateRequest")()
    request.container_requests.add().devices_ids.append(device)
    endpoint = world.kubelet.clients[name]
    return endpoint.call("Allocate", request, SETTLES_WITHIN_S).container_responses[0]


def _enter_network(pid: int) -> None:
    """Move this thread, and it alone, to the network of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(namespace)
