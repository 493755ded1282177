// Job: ranks of rank_program under tutti-run, for tests: what each of them says at its end.

#ifndef TUTTI_TESTS_PROCESS_JOB_H_
#define TUTTI_TESTS_PROCESS_JOB_H_

#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/process/launcher.h"

namespace tutti {

struct RankLine {
  int rank;
  std::string code;
  double seconds;
  std::string message;
};

void PrintTo(const RankLine& line, std::ostream* out);

// The lines "[2] status UNAVAILABLE after 0.123 s: message", by rank.
std::vector<RankLine> RankLines(const std::string& out);

class Job : public testing::Test {
 protected:
  // Runs the scenario on `ranks` ranks to its end, and checks that nothing is left. `set`: "NAME=value".
  // `ranks_per_host`: so many ranks each pretend to be on a host of their own; 0: all are where they are.
  static Launcher::End Run(int ranks, const std::string& scenario, const std::vector<std::string>& set = {},
                           int ranks_per_host = 0);

  static void ExpectOneVerdict(const std::vector<RankLine>& lines);
};

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESS_JOB_H_
