// The tcp store's server with its inner limits, for tests; everybody else uses TcpStoreServer::Start.

#ifndef TUTTI_SRC_STORE_TCP_STORE_SERVER_H_
#define TUTTI_SRC_STORE_TCP_STORE_SERVER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/store/stores.h"

namespace tutti {

struct TcpStoreServerOptions {
  absl::Duration hello_timeout = absl::Seconds(10);       // for a connection to say who it is
  absl::Duration leave_timeout = absl::Seconds(1);        // for clients to say goodbye when the server ends
  absl::Duration accept_pause = absl::Milliseconds(100);  // after accepting has failed
  size_t capacity_bytes = size_t{1} << 30;
};

absl::StatusOr<std::unique_ptr<TcpStoreServer>> StartTcpStoreServer(EventLoop& loop, Fd listener, const Identity& self,
                                                                    const TcpStoreServerOptions& options);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_TCP_STORE_SERVER_H_
