#include "tests/support/groups.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/base/socket.h"
#include "src/group/host_group.h"
#include "src/transport/tcp/tcp_transport.h"
#include "tutti/version.h"

namespace tutti {
namespace {

std::vector<std::unique_ptr<Endpoint>> MakeSimEndpoints(int size, uint64_t seed) {
  std::shared_ptr<SimNetwork> network = SimNetwork::Create({.size = size, .seed = seed});
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank) endpoints.push_back(network->MakeEndpoint(rank));
  return endpoints;
}

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

std::string Name(Wire wire) { return wire == Wire::kSim ? "Sim" : "Tcp"; }

std::string Name(const WireAndSize& each) { return Name(each.wire) + std::to_string(each.size); }

std::vector<WireAndSize> WiresAndSizes() {
  std::vector<WireAndSize> all;
  for (int size = 1; size <= 9; ++size) all.push_back({Wire::kSim, size});
  for (int size = 1; size <= 5; ++size) all.push_back({Wire::kTcp, size});
  return all;
}

std::vector<std::unique_ptr<Endpoint>> MakeEndpoints(Wire wire, int size, uint64_t seed, int sockets_per_peer) {
  return wire == Wire::kSim ? MakeSimEndpoints(size, seed) : MakeTcpEndpoints(size, sockets_per_peer);
}

TestGroups MakeGroups(Wire wire, int size, const TestGroupOptions& options) {
  TestGroups groups;
  for (std::unique_ptr<Endpoint>& endpoint : MakeEndpoints(wire, size, options.seed, options.sockets_per_peer)) {
    HostGroupParts parts;
    parts.endpoint = std::move(endpoint);
    parts.engine = options.engine;
    parts.engine.yield = true;
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
