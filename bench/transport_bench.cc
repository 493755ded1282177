// The tcp transport beside bare sockets: two threads over loopback that poll without sleeping.
//
//   Raw       non-blocking send and recv on one connection, reno congestion control
//   Transport two endpoints of the tcp transport, with default options
//
//   PingPong  one message there and one back; the time is that of both
//   Exchange  both send and receive at once; bytes_per_second counts one direction
//
// The other side's thread ends at a message that starts with a byte other than 0.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "benchmark/benchmark.h"
#include "src/base/host.h"
#include "src/base/socket.h"
#include "src/base/thread.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace tutti {
namespace {

std::pair<Fd, SocketAddress> LoopbackListener() {
  Fd listener = Listen(SocketAddress::Parse("127.0.0.1:0").value()).value();
  const SocketAddress address = LocalAddress(listener.get()).value();
  return {std::move(listener), address};
}

// One side of the comparison. Both move `bytes` each way and return when done.
class RawSide {
 public:
  RawSide(Fd socket, size_t bytes) : socket_(std::move(socket)), out_(bytes), in_(bytes) {}
  static std::pair<RawSide, RawSide> MakePair(size_t bytes) {
    auto [listener, address] = LoopbackListener();
    ::setsockopt(listener.get(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    Fd called = StartConnect(address, {}, "reno").value();
    absl::StatusOr<Fd> accepted = Accept(listener.get());
    return {RawSide(std::move(called), bytes), RawSide(std::move(accepted).value(), bytes)};
  }

  void Send() { Move(out_.size(), 0); }
  void Receive() { Move(0, in_.size()); }
  void Exchange() { Move(out_.size(), in_.size()); }
  char& first_out() { return out_[0]; }
  char first_in() const { return in_[0]; }

 private:
  void Move(size_t to_send, size_t to_receive) {
    while (to_send + to_receive > 0) {
      if (to_send > 0) {
        const ssize_t count = ::send(socket_.get(), out_.data() + out_.size() - to_send, to_send, MSG_DONTWAIT);
        if (count > 0) to_send -= count;
      }
      if (to_receive > 0) {
        const ssize_t count = ::recv(socket_.get(), in_.data() + in_.size() - to_receive, to_receive, MSG_DONTWAIT);
        if (count > 0) to_receive -= count;
      }
    }
  }

  Fd socket_;
  std::vector<char> out_;
  std::vector<char> in_;
};

class TransportSide final : public MessageSink {
 public:
  TransportSide(std::unique_ptr<Endpoint> endpoint, size_t bytes)
      : endpoint_(std::move(endpoint)), peer_(1 - endpoint_->rank()), out_(bytes), in_(bytes) {}
  static std::pair<TransportSide, TransportSide> MakePair(size_t bytes) {
    TcpOptions options[2];
    std::vector<TcpPeer> ranks(2);
    for (int rank : {0, 1}) {
      auto [listener, address] = LoopbackListener();
      options[rank].rank = rank;
      options[rank].listener = std::move(listener);
      ranks[rank].address = address.ToString();
      ranks[rank].identity.rank = rank;
      ranks[rank].identity.world_size = 2;
    }
    for (TcpOptions& each : options) each.ranks = ranks;
    return {TransportSide(MakeTcpEndpoint(std::move(options[0])).value(), bytes),
            TransportSide(MakeTcpEndpoint(std::move(options[1])).value(), bytes)};
  }

  void Send() {
    unsent_ = 1;
    endpoint_->Send(peer_, Channel::kCollective, {}, out_.data(), out_.size(), 0);
    Finish();
  }
  void Receive() {
    missing_ = 1;
    endpoint_->Expect(peer_, Channel::kCollective, 1);
    Finish();
  }
  void Exchange() {
    unsent_ = missing_ = 1;
    endpoint_->Send(peer_, Channel::kCollective, {}, out_.data(), out_.size(), 0);
    endpoint_->Expect(peer_, Channel::kCollective, 1);
    Finish();
  }
  char& first_out() { return out_[0]; }
  char first_in() const { return in_[0]; }

  Delivery Arrived(int, Channel, const MessageTag&, uint64_t) override { return {Verdict::kTake, in_.data()}; }
  void Received(int, Channel, const MessageTag&) override { --missing_; }
  void Sent(uint64_t) override { --unsent_; }
  void Reduced() override {}
  void Disagrees(int, bool) override {}
  void PeerLost(int, absl::Status why) override {
    fprintf(stderr, "%s\n", why.ToString().c_str());
    std::exit(1);
  }

 private:
  void Finish() {
    while (unsent_ + missing_ > 0) endpoint_->Poll(*this);
  }

  std::unique_ptr<Endpoint> endpoint_;
  int peer_;
  std::vector<char> out_;
  std::vector<char> in_;
  int unsent_ = 0;
  int missing_ = 0;
};

template <typename Side>
void PingPong(benchmark::State& state) {
  auto [here, there] = Side::MakePair(state.range(0));
  Thread thread("there", [&there = there] {
    do {
      there.Receive();
      there.Send();
    } while (there.first_in() == 0);
  });
  auto turn = [&here = here] {
    here.Send();
    here.Receive();
  };
  turn();
  for (auto _ : state) turn();
  here.first_out() = 1;
  turn();
}

template <typename Side>
void Exchange(benchmark::State& state) {
  auto [here, there] = Side::MakePair(state.range(0));
  Thread thread("there", [&there = there] {
    do {
      there.Exchange();
    } while (there.first_in() == 0);
  });
  here.Exchange();
  for (auto _ : state) here.Exchange();
  state.SetBytesProcessed(state.iterations() * state.range(0));
  here.first_out() = 1;
  here.Exchange();
}

BENCHMARK_TEMPLATE(PingPong, RawSide)->Arg(4)->Arg(1024)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(PingPong, TransportSide)->Arg(4)->Arg(1024)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(Exchange, RawSide)
    ->Arg(4)
    ->Arg(512 << 10)
    ->Arg(16 << 20)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(Exchange, TransportSide)
    ->Arg(4)
    ->Arg(512 << 10)
    ->Arg(16 << 20)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti
