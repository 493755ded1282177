"""Tutti, other libraries with the settings that serve them best within a host, and what the medium allows: bare
sockets, and bare shared memory. And Tutti on two pretended hosts, against itself where nobody shares memory (flat).

Why these settings:
  - MPI processes get a core each if there are enough, and yield if there are not.
  - Open MPI copies faster through its own segments than with process_vm_readv on 4 KiB pages (openmpi-cma). Its
    components for collectives within a host (openmpi-sm, openmpi-han) and its other algorithms (openmpi-ring,
    openmpi-rabenseifner) are off unless they are asked for, and win at some sizes.
"""

from collections.abc import Callable

from harness.contender import ALLREDUCE_BENCH, TCP_ONLY, TUTTI_RUN, Command, Contender, Job, root_flag

_OWN_PACKAGES = "what ./dev build installs"


def _under_tutti_run(job: Job, program: list[str], environment: dict[str, str]) -> list[Command]:
    return [Command([str(job.build / TUTTI_RUN), "-n", str(job.ranks), *program], environment)]


def _tutti(transport: str, buffers: str, environment: dict[str, str]) -> Contender:
    return Contender("tutti", transport, buffers, ALLREDUCE_BENCH, TUTTI_RUN, _OWN_PACKAGES,
                     lambda job: _under_tutti_run(job, job.allreduce_bench(buffers), environment))


def _on_two_hosts(library: str, buffers: str, environment: dict[str, str]) -> Contender:
    """Half of the ranks believe that they are on another host."""
    def commands(job: Job) -> list[Command]:
        pretend = 'TUTTI_HOST_ID=host$((RANK * 2 / WORLD_SIZE)) exec "$@"'
        return _under_tutti_run(job, ["sh", "-c", pretend, "sh", *job.allreduce_bench(buffers)], environment)

    return Contender(library, "hosts", buffers, ALLREDUCE_BENCH, TUTTI_RUN, _OWN_PACKAGES, commands)


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
        return _under_tutti_run(job, job.peer("gloo_peer", algorithm, "lo", str(job.scratch)), {})

    return Contender(f"gloo-{algorithm}", "tcp", "own", "bench/peers/gloo_peer", TUTTI_RUN, "libgloo-dev", commands)


def _bound(library: str, transport: str, driver: str, variant: str) -> Contender:
    program = f"bench/peers/{driver}"
    return Contender(library, transport, "own", program, program, _OWN_PACKAGES,
                     lambda job: [Command(job.peer(driver, variant), {})], only_ranks=2, is_bound=True)


_SEGMENTS = ["--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "none"]


def _openmpi_algorithm(number: int) -> list[str]:
    return ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", str(number)]


CONTENDERS = [
    _tutti("tcp", "own", TCP_ONLY),
    _tutti("tcp", "library", TCP_ONLY),
    _tutti("shm", "own", {}),
    _tutti("shm", "library", {}),
    _on_two_hosts("tutti", "own", {}),
    _on_two_hosts("tutti", "library", {}),
    _on_two_hosts("flat", "own", TCP_ONLY),
    _on_two_hosts("flat", "library", TCP_ONLY),
    _openmpi("openmpi", "tcp", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"),
    _openmpi("openmpi", "shm", *_SEGMENTS),
    _openmpi("openmpi-cma", "shm", "--mca", "btl", "vader,self"),
    _openmpi("openmpi-sm", "shm", *_SEGMENTS, "--mca", "coll_sm_priority", "100"),
    _openmpi("openmpi-han", "shm", *_SEGMENTS, "--mca", "coll_han_priority", "100"),
    _openmpi("openmpi-ring", "shm", *_SEGMENTS, *_openmpi_algorithm(4)),
    _openmpi("openmpi-rabenseifner", "shm", *_SEGMENTS, *_openmpi_algorithm(6)),
    _mpich("tcp", {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
    _mpich("shm", {}),
    _gloo("ring"),
    _gloo("bcube"),
    _gloo("halving_doubling"),
    _bound("socket-reno", "tcp", "socket_peer", "reno"),
    _bound("socket-system", "tcp", "socket_peer", "default"),
    _bound("memory-in-place", "shm", "memory_peer", "in-place"),
    _bound("memory-staged", "shm", "memory_peer", "staged"),
]
