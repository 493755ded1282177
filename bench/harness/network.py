"""Hosts on one machine: network namespaces, each with one interface, on a bridge.

Each host's link is limited at both ends, and so in both directions.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.arguments import UsageError

INTERFACE = "eth0"
_LIMIT = ["tbf", "rate", "1gbit", "burst", "128kb", "latency", "5ms"]


@dataclass(frozen=True)
class Host:
    name: str
    address: str

    def run_in(self, command: list[str]) -> list[str]:
        """The command, in this host, under a host name of its own."""
        return ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c",
                f'hostname {self.name} && exec "$@"', "sh", *command]


class Network:
    """Use as a context manager: at its end the namespaces are gone, and with them what they held."""

    def __init__(self, count: int):
        prefix = f"tutti{os.getpid()}"
        self._switch = f"{prefix}-switch"
        self.hosts = [Host(f"{prefix}-{i}", f"10.77.0.{i + 1}") for i in range(count)]

    def __enter__(self) -> "Network":
        try:
            self._build()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise UsageError(f"network namespaces are not permitted here: {' '.join(error.cmd)}: "
                             f"{error.stderr.strip()}") from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for name in [self._switch, *(host.name for host in self.hosts)]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    def _build(self) -> None:
        _call("ip", "netns", "add", self._switch)
        self._in_switch("ip", "link", "add", "bridge0", "type", "bridge")
        self._in_switch("ip", "link", "set", "bridge0", "up")
        for index, host in enumerate(self.hosts):
            self._attach(host, f"port{index}")

    def _attach(self, host: Host, port: str) -> None:
        _call("ip", "netns", "add", host.name)
        self._in_switch("ip", "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", host.name)
        self._in_switch("ip", "link", "set", port, "master", "bridge0", "up")
        self._in_switch("tc", "qdisc", "add", "dev", port, "root", *_LIMIT)
        inside = ("ip", "netns", "exec", host.name)
        _call(*inside, "ip", "address", "add", f"{host.address}/24", "dev", INTERFACE)
        _call(*inside, "ip", "link", "set", "lo", "up")
        _call(*inside, "ip", "link", "set", INTERFACE, "up")
        _call(*inside, "tc", "qdisc", "add", "dev", INTERFACE, "root", *_LIMIT)

    def _in_switch(self, *command: str) -> None:
        _call("ip", "netns", "exec", self._switch, *command)

    def write_agent(self, path: Path) -> None:
        """A program that does what rsh would: AGENT [options] ADDRESS COMMAND..."""
        cases = "\n".join(f"{host.address}) name={host.name};;" for host in self.hosts)
        path.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                        f"case $1 in\n{cases}\nesac\nshift\n"
                        'exec ip netns exec $name unshare --uts sh -c "hostname $name && $*"\n')
        path.chmod(0o755)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
