// Process groups for tests: ranks as threads of one process.

#ifndef TUTTI_TESTS_SUPPORT_GROUPS_H_
#define TUTTI_TESTS_SUPPORT_GROUPS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/engine/engine.h"
#include "src/transport/sim/sim_transport.h"
#include "src/transport/transport.h"
#include "tutti/process_group.h"

namespace tutti {

// How the ranks of a test are connected.
enum class Wire { kSim, kTcp, kShm, kTwoPerHost };
std::string Name(Wire wire);

// What a test of groups is run for: 1 to 9 ranks on sim, 1 to 5 on tcp, 2 to 5 in shared memory, and 3 to 6 of which
// two each share memory and the others are reached by tcp.
struct WireAndSize {
  Wire wire;
  int size;
};
std::string Name(const WireAndSize& each);
std::vector<WireAndSize> WiresAndSizes();

struct TestGroups {
  std::vector<std::unique_ptr<ProcessGroup>> ranks;
  ProcessGroup& operator[](int rank) { return *ranks[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks.size()); }
};

struct TestGroupOptions {
  EngineOptions engine = {};
  absl::Duration timeout = absl::Seconds(60);
  uint64_t seed = 1;
  int sockets_per_peer = 0;               // tcp
  std::function<void()> pause = nullptr;  // kShm: between the steps of reductions
};

std::vector<std::unique_ptr<Endpoint>> MakeSimEndpoints(int size, uint64_t seed);

// Groups without a control plane: a rank's own view is its verdict.
TestGroups MakeGroups(Wire wire, int size, const TestGroupOptions& options = {});

// Runs body(rank) for all ranks at once, one thread each, and waits for all.
void OnEachRank(int size, const std::function<void(int rank)>& body);

}  // namespace tutti

#endif  // TUTTI_TESTS_SUPPORT_GROUPS_H_
