"""Cores and priorities."""

import os
import subprocess

# Launchers are above the ranks, and ranks take turns: those that poll would keep a core from the launcher, and from
# each other, for ever.
LAUNCHER_PREFIX = ["chrt", "--rr", "20"]
RANK_PREFIX = ["chrt", "--rr", "10"]


def cores() -> int:
    return len(os.sched_getaffinity(0))


def oversubscribed(ranks: int) -> bool:
    return ranks > cores()


def realtime_problem(ranks: int) -> str:
    """Why so many ranks cannot run under SCHED_RR; empty if they can."""
    if oversubscribed(ranks):
        return f"{ranks} ranks on {cores()} cores: those that poll would starve the others"
    if subprocess.run([*LAUNCHER_PREFIX, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return f"SCHED_RR is not permitted here ({' '.join(LAUNCHER_PREFIX)} true fails)"
    return ""
