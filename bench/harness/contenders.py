"""What is compared: Tutti, other libraries with the settings that serve them best here, and bare sockets.

Why these settings:
  - Scratch memory that glibc returns to the kernel in every call costs more than the call; the heap is kept, for all.
  - MPI processes get a core each if there are enough, and yield if there are not.
  - Open MPI copies faster through its own segments than with process_vm_readv on 4 KiB pages (openmpi-cma).
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.child import End

WARMUP_ITERATIONS = 20  # as in bench/peers

_TUTTI_RUN = "tools/tutti_run/tutti-run"
_ALLREDUCE_BENCH = "bench/allreduce_bench/allreduce_bench"
KEEP_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}


@dataclass(frozen=True)
class Job:
    """One run of one program: an all-reduce of one size."""

    build: Path
    scratch: Path  # an empty folder
    ranks: int
    bytes: int
    realtime: bool = False

    @property
    def oversubscribed(self) -> bool:
        return self.ranks > len(os.sched_getaffinity(0))

    @property
    def iterations(self) -> int:
        most = 200 if self.oversubscribed else 1000
        return max(10, min(most, (128 << 20) // self.bytes))

    def tutti_run(self) -> list[str]:
        return [str(self.build / _TUTTI_RUN), "-n", str(self.ranks)]

    def driver(self, name: str) -> list[str]:
        # Below the launcher, and in turns: ranks that poll would keep a core from it, and from each other, for ever.
        return ["chrt", "--rr", "10"] * self.realtime + [str(self.build / name)]


@dataclass(frozen=True)
class Command:
    arguments: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Contender:
    library: str  # family, or family-variant
    transport: str
    buffers: str  # own: the program's memory; library: memory that the library hands out
    driver: str  # below the build folder
    launcher: str  # a program on PATH, or below the build folder
    packages: str  # Debian's
    command: Callable[[Job], Command]
    only_ranks: int | None = None
    is_bound: bool = False  # moves the bytes and reduces nothing

    @property
    def family(self) -> str:
        return self.library.partition("-")[0]

    @property
    def name(self) -> str:
        return self.library if self.buffers == "own" else f"{self.library} ({self.buffers} buffers)"

    def missing(self, build: Path) -> str:
        """Why it cannot run; empty if it can."""
        if not (build / self.driver).exists():
            return f"{build / self.driver} is not built: install {self.packages} and build again"
        if not (build / self.launcher).exists() and shutil.which(self.launcher) is None:
            return f"{self.launcher} was not found: install {self.packages}"
        return ""


def _json_path(job: Job) -> Path:
    return job.scratch / "result.json"


def _tutti(buffers: str) -> Callable[[Job], Command]:
    def command(job: Job) -> Command:
        arguments = [*job.tutti_run(), *job.driver(_ALLREDUCE_BENCH),
                     "-b", str(job.bytes), "-n", str(job.iterations), "-w", str(WARMUP_ITERATIONS),
                     "-J", str(_json_path(job))]
        return Command(arguments + ["-R"] * (buffers == "library"), {})

    return command


def _work(job: Job) -> list[str]:
    return [str(job.bytes), str(job.iterations)]


def _openmpi(*settings: str) -> Callable[[Job], Command]:
    def command(job: Job) -> Command:
        placement = (["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
                     if job.oversubscribed else ["--bind-to", "core"])
        root = ["--allow-run-as-root"] * (os.geteuid() == 0)
        return Command(["mpirun.openmpi", *root, "--mca", "pml", "ob1", *settings, *placement, "-n", str(job.ranks),
                        *job.driver("bench/peers/openmpi_peer"), *_work(job)], {})

    return command


def _mpich(environment: dict[str, str]) -> Callable[[Job], Command]:
    def command(job: Job) -> Command:
        placement = [] if job.oversubscribed else ["-bind-to", "core"]
        yielding = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"} if job.oversubscribed else {}
        return Command(["mpiexec.mpich", "-launcher", "fork", *placement, "-n", str(job.ranks),
                        *job.driver("bench/peers/mpich_peer"), *_work(job)], environment | yielding)

    return command


def _gloo(algorithm: str) -> Callable[[Job], Command]:
    def command(job: Job) -> Command:
        # tutti-run only starts the processes and sets RANK and WORLD_SIZE.
        return Command([*job.tutti_run(), *job.driver("bench/peers/gloo_peer"), algorithm, "lo",
                        str(job.scratch), *_work(job)], {})

    return command


def _socket(congestion: str) -> Callable[[Job], Command]:
    return lambda job: Command([*job.driver("bench/peers/socket_peer"), congestion, *_work(job)], {})


CONTENDERS = [
    *[Contender("tutti", "tcp", buffers, _ALLREDUCE_BENCH, _TUTTI_RUN, "what ./dev build installs", _tutti(buffers))
      for buffers in ("own", "library")],
    *[Contender(name, transport, "own", "bench/peers/openmpi_peer", "mpirun.openmpi", "openmpi-bin libopenmpi-dev",
                _openmpi(*settings))
      for name, transport, settings in (
          ("openmpi", "tcp", ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")),
          ("openmpi", "shm", ("--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "none")),
          ("openmpi-cma", "shm", ("--mca", "btl", "vader,self")))],
    *[Contender("mpich", transport, "own", "bench/peers/mpich_peer", "mpiexec.mpich", "mpich libmpich-dev",
                _mpich(environment))
      for transport, environment in (
          ("tcp", {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
          ("shm", {}))],
    *[Contender(f"gloo-{algorithm}", "tcp", "own", "bench/peers/gloo_peer", _TUTTI_RUN, "libgloo-dev", _gloo(algorithm))
      for algorithm in ("ring", "bcube", "halving_doubling")],
    *[Contender(f"socket-{name}", "tcp", "own", "bench/peers/socket_peer", "bench/peers/socket_peer",
                "what ./dev build installs", _socket(congestion), only_ranks=2, is_bound=True)
      for name, congestion in (("reno", "reno"), ("system", "default"))],
]


def median_us(end: End, job: Job) -> float | str:
    """The median over the iterations, or a word for what happened instead.

    A program that has printed its result and then hangs has a result: MPICH over TCP is known to.
    """
    result = _result(end, job)
    if result is None:
        return "timeout" if end.timed_out else "failed"
    median, wrong = result
    return median if wrong == 0 else "wrong"


def _result(end: End, job: Job) -> tuple[float, int] | None:
    if _json_path(job).exists():
        text = _json_path(job).read_text()
        if end.timed_out and not text.rstrip().endswith("}"):
            return None
        in_place = json.loads(text)["results"][0]["in_place"]
        return in_place["median_us"], in_place["wrong_elements"]
    for line in end.out.splitlines():
        _, found, fields = line.partition("result ")
        if found:
            values = dict(field.split("=", 1) for field in fields.split())
            return float(values["median_us"]), int(values["wrong"])
    return None
