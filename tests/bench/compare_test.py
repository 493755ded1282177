"""bench/compare as its users run it, with programs in place of the drivers that do what each test needs."""

import csv
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))

from harness import child  # noqa: E402
from harness.contender import Contender, Job  # noqa: E402
from harness.loopback import CONTENDERS  # noqa: E402
from harness.report import Series, versus_best  # noqa: E402

RESULT = "echo result bytes=$2 iterations=$3 median_us=50.5 min_us=40 p99_us=60 max_us=70 wrong=$WRONG"


def processes_with(variable: str) -> list[str]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in environment.read_bytes():
                found.append(environment.parent.name)
        except OSError:
            pass  # it has ended, or is somebody else's
    return found


class CompareTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.mark = f"COMPARE_TEST={self.folder.name}"
        (self.folder / "bench/peers").mkdir(parents=True)

    def compare(self, *arguments: str) -> subprocess.CompletedProcess:
        name, _, value = self.mark.partition("=")
        outputs = ["--csv", self.folder / "out.csv", "--plot", self.folder / "out.svg"]
        return subprocess.run([BENCH / "compare", "--build", self.folder, *outputs, *arguments],
                              env=os.environ | {name: value}, capture_output=True, text=True, timeout=50)

    def sockets_do(self, reno: str, system: str) -> None:
        """What runs in place of the two bare sockets."""
        self.driver_does("socket_peer", f"if [ $1 = reno ]; then\n{reno}\nelse\n{system}\nfi")

    def driver_does(self, name: str, what: str) -> None:
        driver = self.folder / "bench/peers" / name
        driver.write_text(f"#!/bin/sh\nWRONG=0\n{what}\n")
        driver.chmod(0o755)

    def rows(self) -> list[list[str]]:
        with (self.folder / "out.csv").open(newline="") as file:
            return list(csv.reader(file))

    def test_writes_a_row_per_contender_and_size(self) -> None:
        self.sockets_do(RESULT, RESULT)
        done = self.compare("-l", "socket", "-s", "4,1K", "-r", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(",".join(self.rows()[0]),
                         "library,transport,buffers,operation,ranks,bytes,median_us,min_us,max_us")
        self.assertEqual(self.rows()[1:], [[name, "tcp", "own", "all_reduce", "2", count, "50.500", "50.500", "50.500"]
                                           for count in ("4", "1024") for name in ("socket-reno", "socket-system")])

    def test_over_shm_runs_what_shares_memory_and_nothing_else(self) -> None:
        self.sockets_do(RESULT, RESULT)
        self.driver_does("memory_peer", f"[ $1 = in-place ] || WRONG=1\n{RESULT}")
        done = self.compare("-l", "memory", "-t", "shm", "-s", "4,256M", "-r", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([[row[0], row[1], row[5], row[6]] for row in self.rows()[1:]],
                         [[f"memory-{mode}", "shm", count, time] for count in ("4", str(256 << 20))
                          for mode, time in (("in-place", "50.500"), ("staged", "wrong"))])

    def test_plots_every_contender_that_has_a_time(self) -> None:
        self.driver_does("memory_peer", RESULT)
        done = self.compare("-l", "memory", "-t", "shm", "-s", "4,1K", "-r", "1")
        if "python3-matplotlib is not installed" in done.stdout:
            self.skipTest("python3-matplotlib is not installed")
        plot = (self.folder / "out.svg").read_text()
        for text in ("2 ranks, shm", "memory-in-place", "memory-staged"):
            self.assertIn(f"<!-- {text}" if text.startswith("memory") else text, plot)

    def test_goes_on_after_a_program_that_hangs_and_leaves_nothing_of_it(self) -> None:
        self.sockets_do("setsid sleep 100 & sleep 100", RESULT)
        done = self.compare("-l", "socket", "-s", "4", "-r", "1", "--time-limit", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[6] for row in self.rows()[1:]], ["timeout", "50.500"])
        self.assertEqual(processes_with(self.mark), [])

    def test_takes_the_result_of_a_program_that_hangs_at_its_end(self) -> None:
        self.sockets_do(f"{RESULT}; sleep 100", RESULT)
        done = self.compare("-l", "socket", "-s", "4", "-r", "1", "--time-limit", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[6] for row in self.rows()[1:]], ["50.500", "50.500"])

    def test_tells_failures_and_wrong_sums_from_times(self) -> None:
        self.sockets_do("echo no route >&2; exit 3", f"WRONG=7; {RESULT}")
        done = self.compare("-l", "socket", "-s", "4", "-r", "1")
        self.assertEqual([row[6] for row in self.rows()[1:]], ["failed", "wrong"])
        self.assertIn("socket-reno ended with 3: no route", done.stderr)

    def test_refuses_what_is_asked_for_and_not_built_by_its_package(self) -> None:
        for family, package in (("mpich", "libmpich-dev"), ("openmpi", "libopenmpi-dev"), ("gloo", "libgloo-dev")):
            done = self.compare("-l", family)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{family} was asked for", done.stderr)
            self.assertIn(package, done.stderr)

    def test_refuses_bad_arguments_by_name(self) -> None:
        for arguments, text in ((["-s", "5"], '"5"'), (["-s", "4X"], '"4X"'), (["-n", "1"], '"1"'),
                                (["-l", "nccl"], '"nccl"'), (["--realtime", "-n", "4096"], "--realtime")):
            done = self.compare(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(text, done.stderr)


class SeriesTest(unittest.TestCase):
    @staticmethod
    def series(*rounds: float | str) -> Series:
        return Series(CONTENDERS[0], 2, 4, list(rounds))

    def test_ratio_compares_within_rounds(self) -> None:
        self.assertEqual(self.series(2.0, 40.0, 3.0).ratio_to(self.series(1.0, 10.0, 3.0)), (2.0, 1.0, 4.0))

    def test_rounds_without_a_time_do_not_count(self) -> None:
        self.assertEqual(self.series("timeout", 4.0, 8.0).spread(), (6.0, 4.0, 8.0))
        self.assertEqual(self.series("timeout", 4.0).ratio_to(self.series(1.0, "failed")), None)
        self.assertEqual(self.series("timeout", "failed").spread(), "timeout")


class RatioTest(unittest.TestCase):
    @staticmethod
    def series(library: str, *rounds: float | str) -> Series:
        contender, = (one for one in CONTENDERS
                      if (one.library, one.transport, one.buffers) == (library, "shm", "own"))
        return Series(contender, 2, 4, list(rounds))

    def test_holds_ours_against_the_fastest_library_and_apart_from_it_against_the_fastest_bound(self) -> None:
        group = [self.series("tutti", 6.0), self.series("mpich", 3.0), self.series("openmpi", 12.0),
                 self.series("memory-staged", 2.0), self.series("memory-in-place", 1.0)]
        self.assertEqual(versus_best(group), "  tutti / best peer (mpich): 2 [2..2]\n"
                                             "  tutti / bound (memory-in-place): 6 [6..6]\n")

    def test_is_silent_about_what_has_no_time(self) -> None:
        self.assertEqual(versus_best([self.series("tutti", 6.0), self.series("mpich", "timeout")]), "")


class ContendersTest(unittest.TestCase):
    @staticmethod
    def environments(contender: Contender) -> list[dict[str, str]]:
        job = Job(build=Path("/build"), scratch=Path("/scratch"), ranks=2, bytes=4, iterations=1, warmup_iterations=1,
                  realtime=False)
        return [command.environment for command in contender.commands(job)]

    def test_ours_is_held_to_tcp_in_its_rows_of_tcp_and_left_to_choose_in_those_of_shm(self) -> None:
        for contender in CONTENDERS:
            if contender.family == "tutti":
                expected = {"TUTTI_SHARED_MEMORY": "off"} if contender.transport == "tcp" else {}
                self.assertEqual(self.environments(contender), [expected], contender.name)

    def test_on_two_hosts_both_halves_of_the_ranks_have_a_name_of_their_own(self) -> None:
        job = Job(build=Path("/build"), scratch=Path("/scratch"), ranks=4, bytes=4, iterations=1, warmup_iterations=1,
                  realtime=False)
        for contender in CONTENDERS:
            if contender.transport != "hosts":
                continue
            command, = contender.commands(job)
            rank_program = command.arguments[command.arguments.index("sh"):]
            rank_program[4:] = ["sh", "-c", "echo $TUTTI_HOST_ID"]
            said = [child.run(rank_program, {"RANK": str(rank), "WORLD_SIZE": "4"}, 10).out for rank in range(4)]
            self.assertEqual(said, ["host0\n", "host0\n", "host1\n", "host1\n"], contender.name)

    def test_no_two_have_the_same_name(self) -> None:
        names = [(one.transport, one.name) for one in CONTENDERS]
        self.assertEqual(len(names), len(set(names)))


class ChildTest(unittest.TestCase):
    def test_keeps_what_was_printed_before_the_time_limit(self) -> None:
        end = child.run(["sh", "-c", "echo here; exec sleep 100"], {}, 0.5)
        self.assertTrue(end.timed_out)
        self.assertEqual(end.out, "here\n")

    def test_returns_the_exit_status_and_both_outputs(self) -> None:
        end = child.run(["sh", "-c", 'echo "$WORD"; echo no >&2; exit 7'], {"WORD": "yes"}, 10)
        self.assertEqual((end.out, end.err, end.exit_status), ("yes\n", "no\n", 7))


if __name__ == "__main__":
    unittest.main()
