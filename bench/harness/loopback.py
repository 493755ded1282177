"""Tutti, other libraries with the settings that serve them best within a host, and bare sockets.

Why these settings:
  - MPI processes get a core each if there are enough, and yield if there are not.
  - Open MPI copies faster through its own segments than with process_vm_readv on 4 KiB pages (openmpi-cma).
"""

from collections.abc import Callable

from harness.contender import ALLREDUCE_BENCH, TUTTI_RUN, Command, Contender, Job, root_flag

_OWN_PACKAGES = "what ./dev build installs"


def _under_tutti_run(job: Job, program: list[str]) -> list[Command]:
    return [Command([str(job.build / TUTTI_RUN), "-n", str(job.ranks), *program], {})]


def _tutti(buffers: str) -> Contender:
    return Contender("tutti", "tcp", buffers, ALLREDUCE_BENCH, TUTTI_RUN, _OWN_PACKAGES,
                     lambda job: _under_tutti_run(job, job.allreduce_bench(buffers)))


def _openmpi(library: str, transport: str, *settings: str) -> Contender:
    def commands(job: Job) -> list[Command]:
        placement = (["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
                     if job.oversubscribed else ["--bind-to", "core"])
        return [Command(["mpirun.openmpi", *root_flag(), "--mca", "pml", "ob1", *settings, *placement,
                         "-n", str(job.ranks), *job.peer("openmpi_peer")], {})]

    return Contender(library, transport, "own", "bench/peers/openmpi_peer", "mpirun.openmpi",
                     "openmpi-bin libopenmpi-dev", commands)


def _mpich(transport: str, environment: dict[str, str]) -> Contender:
    def commands(job: Job) -> list[Command]:
        placement = [] if job.oversubscribed else ["-bind-to", "core"]
        yielding = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"} if job.oversubscribed else {}
        return [Command(["mpiexec.mpich", "-launcher", "fork", *placement, "-n", str(job.ranks),
                         *job.peer("mpich_peer")], environment | yielding)]

    return Contender("mpich", transport, "own", "bench/peers/mpich_peer", "mpiexec.mpich", "mpich libmpich-dev",
                     commands)


def _gloo(algorithm: str) -> Contender:
    def commands(job: Job) -> list[Command]:
        # tutti-run only starts the processes and sets RANK and WORLD_SIZE.
        return _under_tutti_run(job, job.peer("gloo_peer", algorithm, "lo", str(job.scratch)))

    return Contender(f"gloo-{algorithm}", "tcp", "own", "bench/peers/gloo_peer", TUTTI_RUN, "libgloo-dev", commands)


def _socket(name: str, congestion: str) -> Contender:
    commands: Callable[[Job], list[Command]] = lambda job: [Command(job.peer("socket_peer", congestion), {})]
    program = "bench/peers/socket_peer"
    return Contender(f"socket-{name}", "tcp", "own", program, program, _OWN_PACKAGES, commands, only_ranks=2,
                     is_bound=True)


CONTENDERS = [
    _tutti("own"),
    _tutti("library"),
    _openmpi("openmpi", "tcp", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"),
    _openmpi("openmpi", "shm", "--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "none"),
    _openmpi("openmpi-cma", "shm", "--mca", "btl", "vader,self"),
    _mpich("tcp", {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
    _mpich("shm", {}),
    _gloo("ring"),
    _gloo("bcube"),
    _gloo("halving_doubling"),
    _socket("reno", "reno"),
    _socket("system", "default"),
]
