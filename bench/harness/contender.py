"""One program among those that are compared: how it is started and what it says."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import child, scheduling

# Scratch memory that glibc returns to the kernel in every call costs more than the call.
_KEEP_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}

TUTTI_RUN = "tools/tutti_run/tutti-run"
ALLREDUCE_BENCH = "bench/allreduce_bench/allreduce_bench"
TCP_ONLY = {"TUTTI_SHARED_MEMORY": "off"}


@dataclass(frozen=True)
class Job:
    """One run of one program: an all-reduce of one size."""

    build: Path
    scratch: Path  # an empty folder
    ranks: int
    bytes: int
    iterations: int
    warmup_iterations: int
    realtime: bool

    @property
    def oversubscribed(self) -> bool:
        return scheduling.oversubscribed(self.ranks)

    @property
    def json_path(self) -> Path:
        return self.scratch / "result.json"

    def program(self, name: str) -> list[str]:
        return scheduling.RANK_PREFIX * self.realtime + [str(self.build / name)]

    def peer(self, name: str, *arguments: str) -> list[str]:
        """A driver of bench/peers, with its own arguments."""
        return [*self.program(f"bench/peers/{name}"), *arguments,
                *map(str, (self.bytes, self.iterations, self.warmup_iterations))]

    def allreduce_bench(self, buffers: str) -> list[str]:
        arguments = ["-b", self.bytes, "-n", self.iterations, "-w", self.warmup_iterations, "-J", self.json_path]
        return [*self.program(ALLREDUCE_BENCH), *map(str, arguments)] + ["-R"] * (buffers == "library")


@dataclass(frozen=True)
class Command:
    arguments: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Contender:
    library: str  # family, or family-variant
    transport: str
    buffers: str  # own: the program's memory; library: memory that the library hands out
    program: str  # below the build folder
    launcher: str  # a program on PATH, or below the build folder
    packages: str  # Debian's
    commands: Callable[[Job], list[Command]]  # to be run together; rank 0's result is in the first one's output
    only_ranks: int | None = None
    is_bound: bool = False  # no library, but what the medium allows: not among the peers that one can win against

    @property
    def family(self) -> str:
        return self.library.partition("-")[0]

    @property
    def name(self) -> str:
        return self.library if self.buffers == "own" else f"{self.library} ({self.buffers} buffers)"

    def missing(self, build: Path) -> str:
        """Why it cannot run; empty if it can."""
        if not (build / self.program).exists():
            return f"{build / self.program} is not built: install {self.packages} and build again"
        if not (build / self.launcher).exists() and shutil.which(self.launcher) is None:
            return f"{self.launcher} was not found: install {self.packages}"
        return ""


def run(contender: Contender, limit: float, **job_fields) -> float | str:
    """The median over the iterations in microseconds, or a word for what happened instead.

    A program that has printed its result and then hangs has a result: MPICH over TCP is known to.
    """
    with tempfile.TemporaryDirectory(prefix="compare.") as scratch:
        job = Job(scratch=Path(scratch), **job_fields)
        commands = contender.commands(job)
        ends = child.run_together([scheduling.LAUNCHER_PREFIX * job.realtime + c.arguments for c in commands],
                                  [_KEEP_HEAP | {"TMPDIR": scratch} | c.environment for c in commands], limit)
        result = _result(ends[0], job)
    if result is not None:
        median, wrong = result
        return median if wrong == 0 else "wrong"
    for end in ends:
        if end.exit_status not in (0, None):
            print(f"# {contender.name} ended with {end.exit_status}: {end.err.strip()[-800:]}", file=sys.stderr)
    return "timeout" if any(end.timed_out for end in ends) else "failed"


def _result(end: child.End, job: Job) -> tuple[float, int] | None:
    if job.json_path.exists():
        try:
            in_place = json.loads(job.json_path.read_text())["results"][0]["in_place"]
        except json.JSONDecodeError:
            return None  # it was stopped while it wrote
        return in_place["median_us"], in_place["wrong_elements"]
    for line in end.out.splitlines():
        _, found, fields = line.partition("result ")
        if found:
            values = dict(field.split("=", 1) for field in fields.split())
            return float(values["median_us"]), int(values["wrong"])
    return None


def root_flag() -> list[str]:
    """What mpirun.openmpi wants to hear from root."""
    return ["--allow-run-as-root"] * (os.geteuid() == 0)
