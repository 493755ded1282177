// No library: what two processes reach that only exchange as many bytes as an all-reduce must move, over one loopback
// TCP connection, both ways at once, on sockets that never block. Nothing that uses such a connection can be faster.
//
//   socket_peer CONGESTION BYTES ITERATIONS WARMUP_ITERATIONS
//
// CONGESTION: default, or the name of one that the kernel allows.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/peers/peer.h"

namespace {

// There is nobody to hand an error to; a benchmark without its connection ends.
int CheckCall(int result, const char* what) {
  if (result >= 0) return result;
  std::fprintf(stderr, "socket_peer: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// A socket that would block has moved nothing.
void Move(ssize_t moved, size_t& left) {
  if (moved == 0) {
    std::fprintf(stderr, "socket_peer: the other process has ended\n");
    std::exit(1);
  }
  if (moved < 0 && errno != EAGAIN && errno != EINTR) CheckCall(-1, "socket");
  if (moved > 0) left -= static_cast<size_t>(moved);
}

class SocketPeer : public tutti::Peer {
 public:
  SocketPeer(int rank, int socket) : rank_(rank), socket_(socket) {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  bool reduces() const override { return false; }

  std::function<void()> PrepareAllReduce(absl::Span<float> data) override {
    received_.resize(data.size());
    return [this, data] { Exchange(data.data(), received_.data(), data.size() * sizeof(float)); };
  }

  void MaxOverRanks(absl::Span<double> values) override {
    std::vector<double> others(values.size());
    Exchange(values.data(), others.data(), values.size() * sizeof(double));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::max(values[i], others[i]);
  }

  void Barrier() override {
    char sent = 0, received = 0;
    Exchange(&sent, &received, 1);
  }

 private:
  void Exchange(const void* out, void* in, size_t bytes) {
    const char* const out_end = static_cast<const char*>(out) + bytes;
    char* const in_end = static_cast<char*>(in) + bytes;
    size_t to_send = bytes, to_receive = bytes;
    while (to_send > 0 || to_receive > 0) {
      if (to_send > 0) Move(::send(socket_, out_end - to_send, std::min(to_send, kPiece), MSG_DONTWAIT), to_send);
      if (to_receive > 0) {
        Move(::recv(socket_, in_end - to_receive, std::min(to_receive, kPiece), MSG_DONTWAIT), to_receive);
      }
    }
  }

  static constexpr size_t kPiece = 512 << 10;  // so that both directions advance
  const int rank_, socket_;
  std::vector<float> received_;
};

int NewSocket(const char* congestion) {
  const int fd = CheckCall(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  const int on = 1;
  CheckCall(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
  if (std::strcmp(congestion, "default") != 0) {
    const auto length = static_cast<socklen_t>(std::strlen(congestion));
    CheckCall(::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, length), congestion);
  }
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: socket_peer CONGESTION BYTES ITERATIONS WARMUP_ITERATIONS\n");
    return 2;
  }
  const int listener = NewSocket(argv[1]);  // what it accepts inherits its options
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  CheckCall(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), "bind");
  CheckCall(::listen(listener, 1), "listen");
  CheckCall(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  const pid_t child = CheckCall(::fork(), "fork");
  int connection;
  if (child == 0) {
    connection = NewSocket(argv[1]);
    CheckCall(::connect(connection, reinterpret_cast<sockaddr*>(&address), length), "connect");
  } else {
    connection = CheckCall(::accept(listener, nullptr, nullptr), "accept");
  }
  SocketPeer peer(child == 0 ? 1 : 0, connection);
  const int exit_status = tutti::RunPeer(peer, argc, argv);
  if (child == 0) return exit_status;
  ::close(connection);
  int child_status = 0;
  CheckCall(::waitpid(child, &child_status, 0), "waitpid");
  return exit_status != 0 || child_status != 0 ? 1 : 0;
}
