// One rank of the jobs in the tests: does what its scenario says, and prints one line,
//   status <code> after <seconds> s: <message>
// Exits with 0 if that is OK, else with 1.

#include <cstdio>
#include <memory>
#include <string>

#include "tests/process/scenarios.h"
#include "tutti/tutti.h"

int main(int argc, char** argv) {
  using tutti::Outcome;
  tutti::Scenarios scenarios = tutti::WholeGroupScenarios();
  scenarios.merge(tutti::SplitScenarios());
  const auto scenario = argc == 2 ? scenarios.find(argv[1]) : scenarios.end();
  if (scenario == scenarios.end()) return 2;
  absl::StatusOr<std::unique_ptr<tutti::ProcessGroup>> group = tutti::ProcessGroup::Create();
  const Outcome outcome = group.ok() ? scenario->second(*group) : Outcome{group.status(), absl::ZeroDuration()};
  std::printf("status %s after %.3f s: %s\n", absl::StatusCodeToString(outcome.status.code()).c_str(),
              absl::ToDoubleSeconds(outcome.elapsed), std::string(outcome.status.message()).c_str());
  std::fflush(stdout);
  return outcome.status.ok() ? 0 : 1;
}
