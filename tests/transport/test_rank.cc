#include "tests/transport/test_rank.h"

#include <sched.h>

#include <cstring>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace tutti {

std::string TestPayload(uint64_t bytes, uint32_t seed) {
  std::string payload(bytes, '\0');
  uint32_t x = seed * 2654435761u + 12345;
  for (char& c : payload) {
    x = x * 1664525u + 1013904223u;
    c = static_cast<char>(x >> 24);
  }
  return payload;
}

MessageTag TestTag(int from, int to, Channel channel, uint32_t index) {
  const uint32_t stream =
      (static_cast<uint32_t>(from) << 16) + (static_cast<uint32_t>(to) << 4) + static_cast<uint32_t>(channel);
  return {.fingerprint = 0xfedcba9876543210 + stream, .sequence = index, .segment = ~index, .ordinal = index * 7 + 1};
}

void TestRank::Leave() {
  endpoint_.reset();
  outgoing_.clear();
  taken_.clear();
}

void TestRank::Send(int peer, const std::string& payload, Channel channel) {
  const uint64_t cookie = next_cookie_++;
  auto& [memory, bytes] = outgoing_[cookie];
  memory = std::make_unique<char[]>(payload.size());
  bytes = payload.size();
  std::memcpy(memory.get(), payload.data(), payload.size());
  const MessageTag tag = TestTag(endpoint_->rank(), peer, channel, sent_counts_[{peer, channel}]++);
  const bool was_in_poll = std::exchange(in_poll_, false);
  endpoint_->Send(peer, channel, tag, memory.get(), bytes, cookie);
  in_poll_ = was_in_poll;
}

void TestRank::Expect(int peer, uint32_t count, Channel channel) {
  const bool was_in_poll = std::exchange(in_poll_, false);
  endpoint_->Expect(peer, channel, count);
  in_poll_ = was_in_poll;
}

bool TestRank::Poll() {
  if (endpoint_ == nullptr) return false;
  in_poll_ = true;
  const bool moved = endpoint_->Poll(*this);
  in_poll_ = false;
  return moved;
}

void TestRank::CheckCall(int peer) {
  EXPECT_TRUE(in_poll_) << "the sink was called from outside Poll";
  for (const auto& [lost_peer, why] : lost_) EXPECT_NE(peer, lost_peer) << "heard of after it was lost";
}

MessageSink::Delivery TestRank::Arrived(int peer, Channel channel, const MessageTag& tag, uint64_t bytes) {
  CheckCall(peer);
  ++offers_;
  const Stream stream = {peer, channel};
  EXPECT_EQ(tag, TestTag(peer, endpoint_->rank(), channel, received_counts_[stream])) << "out of order";
  EXPECT_EQ(taken_.count(stream), 0u) << "offered before the last one was received";
  const Verdict verdict = judge ? judge(peer, channel) : Verdict::kTake;
  if (verdict != Verdict::kTake) return {verdict, nullptr};
  taken_[stream] = {std::make_unique<char[]>(bytes), bytes};
  return {verdict, taken_[stream].memory.get()};
}

void TestRank::Received(int peer, Channel channel, const MessageTag& tag) {
  CheckCall(peer);
  const Stream stream = {peer, channel};
  EXPECT_EQ(tag, TestTag(peer, endpoint_->rank(), channel, received_counts_[stream]++));
  ASSERT_EQ(taken_.count(stream), 1u) << "received without having been taken";
  received_.push_back({peer, channel, std::string(taken_[stream].memory.get(), taken_[stream].bytes)});
  taken_.erase(stream);
  if (on_received) on_received(peer);
}

void TestRank::Sent(uint64_t cookie) {
  EXPECT_TRUE(in_poll_) << "the sink was called from outside Poll";
  auto it = outgoing_.find(cookie);
  ASSERT_NE(it, outgoing_.end()) << "sent twice, or never passed to Send";
  std::memset(it->second.first.get(), 0xdd, it->second.second);
  outgoing_.erase(it);
}

void TestRank::PeerLost(int peer, absl::Status why) {
  CheckCall(peer);
  EXPECT_FALSE(why.ok());
  lost_.emplace_back(peer, std::move(why));
}

bool PollUntil(std::vector<TestRank>& ranks, const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + kTestPatience;
  while (!condition()) {
    bool moved = false;
    for (TestRank& rank : ranks) moved |= rank.Poll();
    if (!moved) sched_yield();
    if (absl::Now() > deadline) return false;
  }
  return true;
}

bool PollAndSleepUntil(TestRank& rank, const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + kTestPatience;
  while (!condition()) {
    if (!rank.Poll()) rank.endpoint().Sleep(deadline);
    if (absl::Now() > deadline) return false;
  }
  return true;
}

}  // namespace tutti
