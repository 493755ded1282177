#include "tests/support/groups.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/base/socket.h"
#include "src/group/host_group.h"
#include "src/transport/tcp/tcp_transport.h"
#include "tests/transport/shm_group.h"
#include "tutti/version.h"

namespace tutti {
namespace {

std::vector<std::unique_ptr<Endpoint>> MakeTcpEndpoints(int size, int sockets_per_peer) {
  std::vector<Fd> listeners;
  std::vector<TcpPeer> peers;
  for (int rank = 0; rank < size; ++rank) {
    absl::StatusOr<Fd> listener = Listen(*SocketAddress::Parse("127.0.0.1:0"));
    EXPECT_TRUE(listener.ok()) << listener.status();
    Identity identity;
    identity.version = TUTTI_VERSION;
    identity.job_id = "test";
    identity.rank = rank;
    identity.world_size = size;
    identity.hostname = identity.host_id = "localhost";
    identity.pid = getpid();
    peers.push_back({identity, LocalAddress(listener->get())->ToString()});
    listeners.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank) {
    TcpOptions options;
    options.ranks = peers;
    options.rank = rank;
    options.sockets_per_peer = sockets_per_peer;
    options.listener = std::move(listeners[static_cast<size_t>(rank)]);
    absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = MakeTcpEndpoint(std::move(options));
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    endpoints.push_back(*std::move(endpoint));
  }
  return endpoints;
}

}  // namespace

std::string Name(Wire wire) {
  switch (wire) {
    case Wire::kSim:
      return "Sim";
    case Wire::kTcp:
      return "Tcp";
    case Wire::kShm:
      return "Shm";
    case Wire::kTwoPerHost:
      return "TwoPerHost";
  }
  return "";
}

std::string Name(const WireAndSize& each) { return Name(each.wire) + std::to_string(each.size); }

std::vector<WireAndSize> WiresAndSizes() {
  std::vector<WireAndSize> all;
  for (int size = 1; size <= 9; ++size) all.push_back({Wire::kSim, size});
  for (int size = 1; size <= 5; ++size) all.push_back({Wire::kTcp, size});
  for (int size = 2; size <= 5; ++size) all.push_back({Wire::kShm, size});
  for (int size = 3; size <= 6; ++size) all.push_back({Wire::kTwoPerHost, size});
  return all;
}

std::vector<std::unique_ptr<Endpoint>> MakeSimEndpoints(int size, uint64_t seed) {
  std::shared_ptr<SimNetwork> network = SimNetwork::Create({.size = size, .seed = seed});
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank) endpoints.push_back(network->MakeEndpoint(rank));
  return endpoints;
}

TestGroups MakeGroups(Wire wire, int size, const TestGroupOptions& options) {
  ShmGroup made;
  if (wire == Wire::kSim) made.endpoints = MakeSimEndpoints(size, options.seed);
  if (wire == Wire::kTcp) made.endpoints = MakeTcpEndpoints(size, options.sockets_per_peer);
  if (wire == Wire::kShm) made = MakeShmGroup(size, size, options.pause);
  if (wire == Wire::kTwoPerHost) made = MakeShmGroup(size, 2, options.pause);
  made.buffers.resize(static_cast<size_t>(size));
  TestGroups groups;
  for (size_t rank = 0; rank < made.endpoints.size(); ++rank) {
    HostGroupParts parts;
    parts.endpoint = std::move(made.endpoints[rank]);
    parts.buffers = std::move(made.buffers[rank]);
    parts.engine = options.engine;
    parts.engine.yield = true;
    if (wire == Wire::kTwoPerHost && size > 2 && size % 2 == 0) parts.engine.ranks_per_host = 2;
    parts.timeout = options.timeout;
    groups.ranks.push_back(MakeHostGroup(std::move(parts)));
  }
  return groups;
}

void OnEachRank(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti
