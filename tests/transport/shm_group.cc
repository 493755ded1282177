#include "tests/transport/shm_group.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/transport/shm/local_socket.h"
#include "src/transport/tcp/tcp_transport.h"
#include "tests/transport/tcp_group.h"

namespace tutti {

ShmGroup MakeShmGroup(int size, int ranks_per_host, const std::function<void()>& pause) {
  if (ranks_per_host == 0) ranks_per_host = size;
  ShmGroup group;
  group.endpoints.resize(static_cast<size_t>(size));
  std::vector<LocalListener> listeners;
  for (int rank = 0; rank < size; ++rank) {
    listeners.push_back(ListenLocally().value());
    group.buffers.push_back(BufferRegistry::Create());
  }
  std::vector<TcpOptions> tcp = TestTcpOptions(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    ShmOptions options;
    const int first = rank / ranks_per_host * ranks_per_host;
    for (int other = first; other < std::min(first + ranks_per_host, size); ++other) {
      options.neighbours.push_back({.rank = other, .address = listeners[static_cast<size_t>(other)].name});
    }
    options.group = 4711;
    options.buffers = group.buffers[static_cast<size_t>(rank)];
    options.deadline = absl::Now() + absl::Seconds(30);
    if (pause != nullptr) options.pause = [pause] { pause(); };
    options.wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    tcp[static_cast<size_t>(rank)].wake = Fd(::fcntl(options.wake.get(), F_DUPFD_CLOEXEC, 0));
    threads.emplace_back([&, rank, options = std::move(options)]() mutable {
      std::unique_ptr<Endpoint> far = MakeTcpEndpoint(std::move(tcp[static_cast<size_t>(rank)])).value();
      options.listener = Fd(::fcntl(listeners[static_cast<size_t>(rank)].socket.get(), F_DUPFD_CLOEXEC, 0));
      if (options.neighbours.size() > 1) {
        absl::StatusOr<std::unique_ptr<Endpoint>> made = MakeShmEndpoint(std::move(options), far);
        EXPECT_TRUE(made.ok()) << made.status();
        if (made.ok()) far = *std::move(made);
      }
      group.endpoints[static_cast<size_t>(rank)] = std::move(far);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group;
}

}  // namespace tutti
