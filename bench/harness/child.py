"""Runs programs with a time limit, and leaves none of their processes behind."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 2
_KILL_SECONDS = 10


@dataclass
class End:
    out: str
    err: str
    exit_status: int | None  # None: stopped at the time limit; -N: killed by signal N

    @property
    def timed_out(self) -> bool:
        return self.exit_status is None


def adopt_orphans() -> None:
    """From now on the descendants of a program whose parent ends become children of this process.

    Launchers put ranks into process groups and sessions of their own; only descent finds them all.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_on_signals() -> None:
    """The first SIGINT, SIGTERM or SIGHUP ends this process by SystemExit; later ones do not interrupt the clean-up."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number, _):
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in numbers:
        signal.signal(number, end)


def run(command: list[str], environment: dict[str, str], limit: float) -> End:
    """Runs one command, for `limit` seconds at most, and kills what is left of it and of all that it has started."""
    end, = run_together([command], [environment], limit)
    return end


def run_together(commands: list[list[str]], environments: list[dict[str, str]], limit: float) -> list[End]:
    """Runs several commands at the same time, with one time limit; `environments` are added to this process's."""
    deadline = time.monotonic() + limit
    # Files, not pipes: what a program has printed is there even if something that it left holds its output open.
    outputs = [(tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")) for _ in commands]
    children: list[subprocess.Popen] = []
    try:
        for command, environment, (out, err) in zip(commands, environments, outputs):
            children.append(subprocess.Popen(command, env=os.environ | environment, stdin=subprocess.DEVNULL,
                                             stdout=out, stderr=err, start_new_session=True))
        statuses = [_wait(child, deadline) for child in children]
    finally:
        _end(children)
    return [End(_text(out), _text(err), status) for status, (out, err) in zip(statuses, outputs)]


def _wait(child: subprocess.Popen, deadline: float) -> int | None:
    try:
        return child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _end(children: list[subprocess.Popen]) -> None:
    # Launchers that are asked first take their files with them.
    running = [child for child in children if child.poll() is None]
    for child in running:
        os.killpg(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    for child in running:
        _wait(child, deadline)
    kill_descendants()


def kill_descendants() -> None:
    """Kills and reaps every process that descends from this one."""
    deadline = time.monotonic() + _KILL_SECONDS
    while pids := _descendants(os.getpid()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids} do not end after SIGKILL")
        for pid in pids:
            try:
                # A real-time process can spin in the kernel for good while it waits for an ordinary one.
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _reap()
        time.sleep(0.002)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def _descendants(ancestor: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue  # it has ended
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = []
    pending = [ancestor]
    while pending:
        found += (born := children.get(pending.pop(), []))
        pending += born
    return found


def _text(file) -> str:
    with file:
        file.seek(0)
        return file.read()
