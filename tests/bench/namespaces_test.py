"""The parts of bench/namespaces that need neither root nor a network: arguments, effort, table and refusals."""

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))

from harness import report  # noqa: E402
from harness.arguments import UsageError  # noqa: E402
from harness.contender import Job  # noqa: E402
from harness.hosts import contenders_of_several_ranks_per_host  # noqa: E402
from harness.loopback import CONTENDERS  # noqa: E402
from harness.network import Network  # noqa: E402


def load():
    loader = importlib.machinery.SourceFileLoader("namespaces", str(BENCH / "namespaces"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("namespaces", loader))
    loader.exec_module(module)
    return module


namespaces = load()


class ParseTest(unittest.TestCase):
    def test_takes_lists_and_binary_multiples(self) -> None:
        options = namespaces.parse(["-n", "2,3", "-s", "4,1K,2M", "-r", "1", "-l", "tutti,gloo"])
        self.assertEqual((options.hosts, options.sizes, options.rounds, options.libraries),
                         ([2, 3], [4, 1 << 10, 2 << 20], 1, ["tutti", "gloo"]))

    def test_measures_two_and_four_hosts_of_every_library_if_nothing_is_asked_for(self) -> None:
        options = namespaces.parse([])
        self.assertEqual((options.hosts, options.ranks_per_host, options.libraries), ([2, 4], 1, None))

    def test_refuses_bad_arguments_by_name(self) -> None:
        for arguments in (["-n", "1"], ["--ranks-per-host", "0"], ["-s", "5"], ["-s", "0"], ["-l", "nccl"], ["-r", "0"]):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
                namespaces.parse(arguments)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(f'"{arguments[1]}"', said.getvalue())


class CheckTest(unittest.TestCase):
    def test_says_that_it_needs_root(self) -> None:
        with mock.patch("os.geteuid", return_value=1000), self.assertRaisesRegex(UsageError, "root"):
            namespaces.check(namespaces.parse([]))

    def test_says_which_package_is_missing(self) -> None:
        there = {"ip", "tc"}
        with (mock.patch("os.geteuid", return_value=0),
              mock.patch("shutil.which", side_effect=lambda name: name if name in there else None),
              self.assertRaisesRegex(UsageError, "iperf3 was not found: install iperf3")):
            namespaces.check(namespaces.parse([]))


class EffortTest(unittest.TestCase):
    def test_spends_about_two_seconds_at_the_speed_of_the_link(self) -> None:
        for ranks in (2, 4):
            count = 4 << 20
            seconds = (namespaces.effort(ranks, count)["iterations"] * count * 2 * (ranks - 1) / ranks
                       / namespaces.LINK_BYTES_PER_SECOND)
            self.assertAlmostEqual(seconds, 2, delta=0.1)

    def test_is_bounded_at_both_ends(self) -> None:
        self.assertEqual(namespaces.effort(2, 1 << 30), {"iterations": 4, "warmup_iterations": 2})
        smallest = namespaces.effort(2, 4)
        self.assertIn(smallest["iterations"], (200, 1000))
        self.assertEqual(smallest["warmup_iterations"], 20)


class RanksTest(unittest.TestCase):
    def test_follow_each_other_host_by_host(self) -> None:
        job = Job(build=Path("/build"), scratch=Path("/scratch"), ranks=6, bytes=4, iterations=1, warmup_iterations=1,
                  realtime=False)
        network = Network(2)
        for contender in contenders_of_several_ranks_per_host(network):
            commands = contender.commands(job)
            self.assertEqual([(one.environment["RANK"], one.environment["LOCAL_RANK"], one.arguments[3])
                              for one in commands],
                             [(str(3 * host + local), str(local), network.hosts[host].name)
                              for host in range(2) for local in range(3)])
            self.assertEqual({one.environment.get("TUTTI_SHARED_MEMORY") for one in commands},
                             {"off"} if contender.family == "flat" else {None})


class TableTest(unittest.TestCase):
    @staticmethod
    def series(library: str, ranks: int, count: int, *rounds: float | str) -> report.Series:
        contender = next(one for one in CONTENDERS if one.library == library and one.transport == "tcp")
        return report.Series(contender, ranks, count, list(rounds))

    def test_bus_bandwidth_is_what_each_link_carries_in_each_direction(self) -> None:
        self.assertAlmostEqual(report.bus_bandwidth(2, 125_000, 1000), 0.125)
        self.assertAlmostEqual(report.bus_bandwidth(4, 125_000, 1000), 0.1875)

    def test_a_row_has_time_bandwidth_and_its_part_of_the_reference(self) -> None:
        row = namespaces.row(self.series("tutti", 2, 125_000, 900.0, 1000.0, 1250.0), 0.25)
        self.assertEqual(row.split(), ["tutti", "1000", "[900..1250]", "0.1250", "50.0%"])

    def test_a_row_without_a_time_says_what_happened(self) -> None:
        self.assertEqual(namespaces.row(self.series("mpich", 2, 4, "timeout"), 0.1).split(), ["mpich", "timeout"])

    def test_a_table_has_a_part_for_every_size_and_names_the_best_peer(self) -> None:
        table = namespaces.table([self.series("tutti", 4, 4, 10.0), self.series("mpich", 4, 4, 20.0),
                                  self.series("tutti", 4, 1 << 20, 30.0), self.series("mpich", 4, 1 << 20, 15.0)], 2, 0.1)
        self.assertEqual([line for line in table.splitlines() if line.startswith("all-reduce")],
                         [f"all-reduce, 4 ranks on 2 hosts, {size}: time in us, median [lowest..highest] of the rounds; "
                          "GB/s bus; of iperf3's" for size in ("4 B", "1 MiB")])
        self.assertIn("tutti / best peer (mpich): 0.5 [0.5..0.5]", table)
        self.assertIn("tutti / best peer (mpich): 2 [2..2]", table)


if __name__ == "__main__":
    unittest.main()
