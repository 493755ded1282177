// TestRank: an endpoint and a sink that finds out what an endpoint must not do.
//
// Fails the test if: the sink is called from outside Poll; messages overtake each other; a message is received that was
// not taken, or sent that is not outstanding; a peer is heard of after it was lost, or lost twice. Memory passed to
// Send is overwritten once Sent says that it may be.

#ifndef TUTTI_TESTS_TRANSPORT_TEST_RANK_H_
#define TUTTI_TESTS_TRANSPORT_TEST_RANK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/transport/transport.h"

namespace tutti {

// A test that waits longer has hung.
inline constexpr absl::Duration kTestPatience = absl::Seconds(30);

// Different for each seed, and without a short period.
std::string TestPayload(uint64_t bytes, uint32_t seed = 0);

// Of the message number `index` between two ranks on a channel.
MessageTag TestTag(int from, int to, Channel channel, uint32_t index);

class TestRank final : private MessageSink {
 public:
  struct Message {
    int peer;
    Channel channel;
    std::string payload;
  };

  explicit TestRank(std::unique_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}

  Endpoint& endpoint() { return *endpoint_; }
  // Destroys the endpoint, and then all memory that it was given.
  void Leave();

  void Send(int peer, const std::string& payload, Channel channel = Channel::kCollective);
  void Expect(int peer, uint32_t count = 1, Channel channel = Channel::kCollective);
  bool Poll();

  // What to do with a message; takes it if empty.
  std::function<Verdict(int peer, Channel channel)> judge;
  std::function<void(int peer)> on_received;

  const std::vector<Message>& received() const { return received_; }
  const std::vector<std::pair<int, absl::Status>>& lost() const { return lost_; }
  size_t unsent() const { return outgoing_.size(); }
  int offers() const { return offers_; }
  int reduced() const { return reduced_; }
  const std::vector<int>& disagreeing() const { return disagreeing_; }

 private:
  using Stream = std::pair<int, Channel>;
  struct Taken {
    std::unique_ptr<char[]> memory;
    uint64_t bytes = 0;
  };

  Delivery Arrived(int peer, Channel channel, const MessageTag& tag, uint64_t bytes) override;
  void Received(int peer, Channel channel, const MessageTag& tag) override;
  void Sent(uint64_t cookie) override;
  void PeerLost(int peer, absl::Status why) override;
  void Reduced() override { ++reduced_; }
  void Disagrees(int peer, bool) override { disagreeing_.push_back(peer); }
  void CheckCall(int peer);

  std::unique_ptr<Endpoint> endpoint_;
  bool in_poll_ = false;
  uint64_t next_cookie_ = 1000;
  int offers_ = 0;
  std::map<Stream, uint32_t> sent_counts_;
  std::map<Stream, uint32_t> received_counts_;
  std::map<uint64_t, std::pair<std::unique_ptr<char[]>, size_t>> outgoing_;  // by cookie
  std::map<Stream, Taken> taken_;
  std::vector<Message> received_;
  std::vector<std::pair<int, absl::Status>> lost_;
  int reduced_ = 0;
  std::vector<int> disagreeing_;
};

// Polls all of them in turn until the condition holds; false if it does not within kTestPatience.
bool PollUntil(std::vector<TestRank>& ranks, const std::function<bool()>& condition);

// Polls the rank, sleeping in between, until the condition holds. For a thread of its own.
bool PollAndSleepUntil(TestRank& rank, const std::function<bool()>& condition);

}  // namespace tutti

#endif  // TUTTI_TESTS_TRANSPORT_TEST_RANK_H_
