// Rendezvous: from settings to a store that all ranks share, and an address for this rank.

#ifndef TUTTI_SRC_RENDEZVOUS_RENDEZVOUS_H_
#define TUTTI_SRC_RENDEZVOUS_RENDEZVOUS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/event_loop.h"
#include "src/base/socket.h"
#include "src/identity/hello.h"
#include "src/rendezvous/environment.h"
#include "src/store/store.h"

namespace tutti {

struct MeetingPoint {
  std::unique_ptr<Store> store;  // rank 0's holds the server
  SocketAddress address;         // of this host, for listeners; port 0
  Identity self;
  std::vector<std::string> choices;  // "interface = eth0 (routes to the master 10.8.0.1)"
};

// Opens the store (rank 0 serves it, unless it is a file) and chooses the address. Tries names that do not resolve yet
// and servers that do not listen yet again until the deadline; then the error says what was tried and why it failed.
absl::StatusOr<MeetingPoint> Meet(EventLoop& loop, const Settings& settings, absl::Time deadline);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_RENDEZVOUS_H_
