"""simulate as its users run it. The first argument is the program."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = ""
HEADER = "library,transport,buffers,operation,ranks,bytes,median_us,min_us,max_us\n"
# A message takes 10 us to send and 20 us to receive, whatever is in it.
COSTS = ["--network", "loopback", "--send-overhead-us", "10", "--recv-overhead-us", "20", "--copy-us-per-byte", "0",
         "--reduce-us-per-byte", "0"]


def simulate(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=50)


class SimulateTest(unittest.TestCase):
    def compare(self, rows: str, *arguments: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "measured.csv"
            path.write_text(rows)
            return simulate("--compare", str(path), *arguments)

    def test_prints_a_line_for_each_algorithm(self) -> None:
        done = simulate("-c", "reduce-scatter", "-n", "2,3", "-b", "0", *COSTS, "--cores", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()[2:]]
        # By the arithmetic of the ring of n: n - 1 messages one after the other.
        self.assertIn(["reduce-scatter", "2", "0", "ring", "30.0", "1", "0", "1"], rows)
        self.assertIn(["reduce-scatter", "3", "0", "ring", "60.0", "2", "0", "2"], rows)
        self.assertEqual(len(rows), 6)

    def test_cuts_an_operation_as_the_engine_does(self) -> None:
        done = simulate("-c", "all-reduce", "-n", "2", "-b", "512K", *COSTS)
        self.assertEqual(done.returncode, 0, done.stderr)
        messages = {line.split()[3]: line.split()[5] for line in done.stdout.splitlines()[2:]}
        # The default rule for two ranks asks for 512 KiB a message; whoever asks for another algorithm gets 256 KiB.
        self.assertEqual(messages["exchange"], "1")
        self.assertEqual(messages["gather"], "2")

    def test_knows_thousands_of_ranks_and_leaves_out_what_is_too_much(self) -> None:
        done = simulate("-c", "reduce,all-to-all", "-n", "4096", "-b", "8", "--network", "100g")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {tuple(line.split()[i] for i in (0, 3)): line for line in done.stdout.splitlines()[2:]}
        self.assertRegex(rows["reduce", "tree"], r" 1 +8 +12$")
        self.assertIn("more than is worth simulating", rows["all-to-all", "bruck"])
        self.assertNotIn(("reduce", "direct"), rows)

    def test_compares_with_measurements(self) -> None:
        done = self.compare(HEADER + "tutti,tcp,own,all_reduce,2,4,60,1,1\n"
                            "tutti,tcp,library,all_reduce,2,4,999,1,1\n"
                            "mpich,tcp,own,all_reduce,2,4,999,1,1\n"
                            "tutti,tcp,own,all_reduce,2,1048576,1,1,1\n"
                            "tutti,tcp,own,all_reduce,64,4,999,1,1\n", *COSTS)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[2].split()[:2] + lines[2].split()[3:], ["2", "4", "30.0", "60.0", "-50.0%"])
        self.assertIn("<-- more than 25 %", lines[3])
        self.assertEqual(lines[4], "# 1 of 1 rows of 1 MiB and more are off by more than 25 %")

    def test_calibrates_with_the_smallest_and_the_largest_size(self) -> None:
        done = self.compare(HEADER + "".join(f"tutti,tcp,own,all_reduce,2,{size},{time},1,1\n"
                                             for size, time in [(16777216, 9000), (4, 12.5), (65536, 50)]),
                            "--network", "loopback", "--calibrate")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[2], r" 12\.5 +12\.5 +[+-]0\.0%$")
        self.assertRegex(lines[4], r" 9000\.0 +9000\.0 +[+-]0\.0%$")

    def test_refuses_what_it_cannot_read(self) -> None:
        for rows, why in [("library,ranks\n", 'no column "transport"'),
                          (HEADER, "there is no row"),
                          (HEADER + "tutti,tcp,own,all_reduce,2,4\n", "line 2: 6 columns instead of 9"),
                          (HEADER + "tutti,tcp,own,all_reduce,two,4,1,1,1\n", "line 2: not a measurement"),
                          (HEADER + "tutti,tcp,own,all_reduce,2,4,nan,1,1\n", "line 2: not a measurement")]:
            done = self.compare(rows)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(why, done.stderr)
        done = self.compare(HEADER + "tutti,tcp,own,all_reduce,2,4,1,1,1\n", "--calibrate")
        self.assertIn("to calibrate takes rows of two sizes with 2 ranks", done.stderr)

    def test_refuses_a_bad_command_line(self) -> None:
        for arguments, why in [(["-c", "all"], "expected one of all-reduce"), (["-n", "0"], "--ranks 0"),
                               (["--network", "carrier pigeon"], "expected one of 10g 25g 100g loopback"),
                               (["--wire-latency-us", "-1"], "must be finite and not negative"),
                               (["--calibrate"], "needs the measurements of --compare"),
                               (["--cores", "-1"], "--cores must not be negative"),
                               (["--turn-us", "-1"], "must be finite and not negative")]:
            done = simulate(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
