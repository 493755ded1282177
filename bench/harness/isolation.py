"""A network namespace with a loopback interface and nothing else, for this process and what it starts.

It is gone with its last process.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_CONGESTION = "net.ipv4.tcp_congestion_control"


class NotPermitted(Exception):
    """Says what, and by whom."""


def enter_loopback_namespace() -> None:
    if shutil.which("ip") is None:
        raise NotPermitted("a network namespace of its own needs ip: install iproute2")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise NotPermitted(f"a network namespace of its own is not permitted: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def set_congestion_control(name: str) -> None:
    """Only in a namespace of its own: everybody else's connections would change as well."""
    try:
        _congestion_file().write_text(name)
    except OSError as error:
        raise NotPermitted(f"{_CONGESTION} = {name} was refused by the kernel: {error.strerror}") from error


def congestion_control() -> str:
    return _congestion_file().read_text().strip()


def _congestion_file() -> Path:
    return Path("/proc/sys", *_CONGESTION.split("."))
