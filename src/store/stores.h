// The kinds of store.

#ifndef TUTTI_SRC_STORE_STORES_H_
#define TUTTI_SRC_STORE_STORES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/identity/hello.h"
#include "src/store/store.h"

namespace tutti {

// In this process: for one rank, and tests.
std::unique_ptr<Store> MakeMemoryStore();

// `base` with every key behind "prefix/".
std::unique_ptr<Store> MakePrefixStore(std::shared_ptr<Store> base, std::string prefix);

// In a file that all ranks see, under an fcntl lock. The file carries the job and the processes that opened it. A file
// of a finished or dead job, of another job, or with other contents is refused at once, naming what it holds and what
// to do; an empty one is taken. The last process that closes the store removes the file.
absl::StatusOr<std::unique_ptr<Store>> OpenFileStore(std::string path, const Identity& self, absl::Time deadline);

// The server of tcp stores, on an event loop. Outlives its slowest client: the destructor waits, bounded, until the
// clients have said goodbye, and tells those that are left.
class TcpStoreServer {
 public:
  virtual ~TcpStoreServer() = default;
  virtual SocketAddress address() const = 0;

  // `listener` listens already. Clients must present a hello for which `CheckSameJob(self, ...)` holds.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Start(EventLoop& loop, Fd listener, const Identity& self);
};

// A client of such a server. Tries all addresses until the deadline.
absl::StatusOr<std::unique_ptr<Store>> ConnectTcpStore(EventLoop& loop, const std::vector<SocketAddress>& server,
                                                       const Identity& self, absl::Time deadline);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_STORES_H_
