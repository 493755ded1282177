// What a rank of a test's job does, by name.

#ifndef TUTTI_TESTS_PROCESS_SCENARIOS_H_
#define TUTTI_TESTS_PROCESS_SCENARIOS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tutti/tutti.h"

namespace tutti {

struct Outcome {
  absl::Status status;
  absl::Duration elapsed;  // of the operation that ended with it
};

// May destroy the group.
using Scenario = std::function<Outcome(std::unique_ptr<ProcessGroup>& group)>;
using Scenarios = std::map<std::string, Scenario>;

Scenarios WholeGroupScenarios();
Scenarios SplitScenarios();

Outcome Timed(const std::function<absl::Status()>& operation);

// All-reduces `count` floats and checks the sum.
absl::Status CheckSum(ProcessGroup& group, size_t count);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESS_SCENARIOS_H_
