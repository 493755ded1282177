"""Tutti and other libraries with one rank on each host of a Network; and Tutti with several on each, against itself
where nobody shares memory (flat).

No core binding: each host believes that it owns the machine's cores, and all would take the first.
"""

from harness.contender import ALLREDUCE_BENCH, TCP_ONLY, Command, Contender, Job, root_flag
from harness.network import INTERFACE, Network

_STORE_PORT = "29500"  # the hosts are empty


def contenders(network: Network) -> list[Contender]:
    return [_tutti(network, "tutti", "own"), _tutti(network, "tutti", "library"), _openmpi(network), _mpich(network),
            *[_gloo(network, algorithm) for algorithm in ("ring", "bcube", "halving_doubling")]]


def contenders_of_several_ranks_per_host(network: Network) -> list[Contender]:
    return [_tutti(network, library, buffers) for library in ("tutti", "flat") for buffers in ("own", "library")]


def _start(network: Network, job: Job, program: list[str], environment: dict[str, str]) -> list[Command]:
    """The ranks, the same number on each host, in the order of the hosts."""
    per_host = job.ranks // len(network.hosts)
    common = environment | {"WORLD_SIZE": str(job.ranks), "MASTER_ADDR": network.hosts[0].address,
                            "MASTER_PORT": _STORE_PORT}
    commands = []
    for rank in range(job.ranks):
        host = network.hosts[rank // per_host]
        mine = {"RANK": str(rank), "LOCAL_RANK": str(rank % per_host), "TUTTI_HOST_ID": host.name}
        commands.append(Command(host.run_in(program), common | mine))
    return commands


def _tutti(network: Network, library: str, buffers: str) -> Contender:
    environment = TCP_ONLY if library == "flat" else {}
    return Contender(library, "tcp", buffers, ALLREDUCE_BENCH, "ip", "iproute2",
                     lambda job: _start(network, job, job.allreduce_bench(buffers), environment))


def _gloo(network: Network, algorithm: str) -> Contender:
    def commands(job: Job) -> list[Command]:
        return _start(network, job, job.peer("gloo_peer", algorithm, INTERFACE, str(job.scratch)), {})

    return Contender(f"gloo-{algorithm}", "tcp", "own", "bench/peers/gloo_peer", "ip", "libgloo-dev", commands)


def _addresses(network: Network) -> str:
    return ",".join(host.address for host in network.hosts)


def _openmpi(network: Network) -> Contender:
    def commands(job: Job) -> list[Command]:
        agent = job.scratch / "agent"
        network.write_agent(agent)
        settings = {"plm_rsh_agent": str(agent), "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": INTERFACE,
                    "oob_tcp_if_include": INTERFACE, "mpi_yield_when_idle": str(int(job.oversubscribed))}
        mca = [word for name, value in settings.items() for word in ("--mca", name, value)]
        return [Command(network.hosts[0].run_in(["mpirun.openmpi", *root_flag(), *mca, "--host", _addresses(network),
                                                 "--bind-to", "none", "-n", str(job.ranks),
                                                 *job.peer("openmpi_peer")]), {})]

    return Contender("openmpi", "tcp", "own", "bench/peers/openmpi_peer", "mpirun.openmpi",
                     "openmpi-bin libopenmpi-dev", commands)


def _mpich(network: Network) -> Contender:
    def commands(job: Job) -> list[Command]:
        agent = job.scratch / "agent"
        network.write_agent(agent)
        environment = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": INTERFACE}
        if job.oversubscribed:
            environment["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
        return [Command(network.hosts[0].run_in(["mpiexec.mpich", "-launcher", "rsh", "-launcher-exec", str(agent),
                                                 "-iface", INTERFACE, "-hosts", _addresses(network), "-ppn", "1",
                                                 "-n", str(job.ranks), *job.peer("mpich_peer")]), environment)]

    return Contender("mpich", "tcp", "own", "bench/peers/mpich_peer", "mpiexec.mpich", "mpich libmpich-dev", commands)
