#include "src/transport/shm/local_socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

absl::Time Soon() { return absl::Now() + absl::Milliseconds(20); }
absl::Time AtLast() { return absl::Now() + absl::Seconds(30); }

struct Connection {
  Fd caller, answerer;
};

Connection Connect() {
  const LocalListener listener = ListenLocally().value();
  Connection connection;
  connection.caller = ConnectLocally(listener.name, AtLast()).value();
  connection.answerer = AcceptLocally(listener.socket.get()).value().value();
  return connection;
}

struct Pipe {
  Fd out, in;  // what is written to `in` comes from `out`
  Pipe() {
    int both[2] = {-1, -1};
    EXPECT_EQ(::pipe2(both, O_CLOEXEC | O_NONBLOCK), 0);
    out = Fd(both[0]);
    in = Fd(both[1]);
  }
  // The last descriptor for writing to it is gone.
  bool HasEnded() const {
    char nothing = 0;
    return ::read(out.get(), &nothing, 1) == 0;
  }
};

// Bytes as a packet of any size, with descriptors.
void SendRaw(int socket, size_t bytes, const std::vector<int>& descriptors) {
  std::array<std::byte, 256> content = {};
  iovec part = {.iov_base = content.data(), .iov_len = bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

TEST(LocalSocket, NamesAreRandomAndBeginAlike) {
  const LocalListener one = ListenLocally().value(), other = ListenLocally().value();
  EXPECT_THAT(one.name, MatchesRegex("tutti-[0-9]+/[0-9a-f]+"));
  EXPECT_EQ(SpaceOf(one.name), SpaceOf(other.name));
  EXPECT_EQ(absl::StripPrefix(one.name, SpaceOf(one.name)).size(), 1u + 32u);
  EXPECT_NE(one.name, other.name);
}

TEST(LocalSocket, ConnectsWhoKnowsTheName) {
  const LocalListener listener = ListenLocally().value();
  EXPECT_FALSE(AcceptLocally(listener.socket.get()).value().has_value()) << "nobody has called";
  const Fd caller = ConnectLocally(listener.name, AtLast()).value();
  EXPECT_TRUE(AcceptLocally(listener.socket.get()).value().has_value());
  EXPECT_FALSE(AcceptLocally(listener.socket.get()).value().has_value());
}

TEST(LocalSocket, ToNobodyIsUnavailable) {
  LocalListener listener = ListenLocally().value();
  listener.socket.Close();
  EXPECT_EQ(ConnectLocally(listener.name, AtLast()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalSocket, WhatIsNoNameIsRefused) {
  for (const std::string& name : {std::string(), std::string(108, 'x'), std::string(100000, 'x')}) {
    EXPECT_EQ(ConnectLocally(name, AtLast()).status().code(), absl::StatusCode::kInvalidArgument) << name.size();
  }
  EXPECT_EQ(ConnectLocally(std::string(107, 'x'), AtLast()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalSocket, CarriesPacketsInOrderInBothDirections) {
  const Connection connection = Connect();
  const std::pair<int, int> directions[] = {{connection.caller.get(), connection.answerer.get()},
                                            {connection.answerer.get(), connection.caller.get()}};
  for (const auto& [from, to] : directions) {
    EXPECT_FALSE(ReceivePacket(to).value().has_value()) << "nothing was sent";
    for (const uint32_t i : {1u, 2u, 3u}) {
      ASSERT_TRUE(SendPacket(from, {.kind = i, .number = 10 * i, .id = ~uint64_t{i}, .bytes = 1000}, {}).ok());
    }
    for (const uint32_t i : {1u, 2u, 3u}) {
      const ReceivedPacket received = AwaitPacket(to, AtLast()).value();
      EXPECT_EQ(received.packet.kind, i);
      EXPECT_EQ(received.packet.number, 10 * i);
      EXPECT_EQ(received.packet.id, ~uint64_t{i});
      EXPECT_EQ(received.packet.bytes, 1000u);
      EXPECT_FALSE(received.descriptors[0].valid());
      EXPECT_FALSE(received.descriptors[1].valid());
    }
  }
}

TEST(LocalSocket, HandsOverDescriptors) {
  const Connection connection = Connect();
  for (const size_t count : {1u, 2u}) {
    Pipe pipes[2];
    const int descriptors[] = {pipes[0].in.get(), pipes[1].in.get()};
    ASSERT_TRUE(SendPacket(connection.caller.get(), {}, absl::MakeSpan(descriptors, count)).ok());
    for (Pipe& pipe : pipes) pipe.in.Close();
    std::optional<ReceivedPacket> received = ReceivePacket(connection.answerer.get()).value();
    ASSERT_TRUE(received.has_value());
    for (size_t i = 0; i < 2; ++i) {
      Fd& descriptor = received->descriptors[i];
      ASSERT_EQ(descriptor.valid(), i < count);
      if (!descriptor.valid()) continue;
      EXPECT_NE(::fcntl(descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
      const char sent = 'x';
      char got = 0;
      EXPECT_EQ(::write(descriptor.get(), &sent, 1), 1);
      EXPECT_EQ(::read(pipes[i].out.get(), &got, 1), 1);
      EXPECT_EQ(got, 'x');
    }
    received.reset();
    EXPECT_TRUE(pipes[0].HasEnded());
  }
}

TEST(LocalSocket, NoticesThatThePeerHasClosed) {
  Connection connection = Connect();
  ASSERT_TRUE(SendPacket(connection.caller.get(), {.kind = 5}, {}).ok());
  connection.caller.Close();
  EXPECT_EQ(AwaitPacket(connection.answerer.get(), AtLast()).value().packet.kind, 5u) << "sent before";
  EXPECT_TRUE(AwaitReadable(connection.answerer.get(), AtLast()).ok());
  EXPECT_EQ(ReceivePacket(connection.answerer.get()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SendPacket(connection.answerer.get(), {}, {}).code(), absl::StatusCode::kUnavailable);
}

TEST(LocalSocket, WaitsNoLongerThanToTheDeadline) {
  const Connection connection = Connect();
  EXPECT_EQ(AwaitReadable(connection.caller.get(), Soon()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(AwaitPacket(connection.caller.get(), Soon()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(LocalSocket, DoesNotWaitForAPeerThatReadsNothing) {
  const Connection connection = Connect();
  absl::Status status;
  for (int i = 0; status.ok() && i < 1000000; ++i) status = SendPacket(connection.caller.get(), {}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(LocalSocket, RefusesPacketsOfAnotherSizeAndWhatCameWithThem) {
  for (const size_t bytes : {size_t{1}, sizeof(Packet) - 1, sizeof(Packet) + 1, size_t{200}}) {
    const Connection connection = Connect();
    Pipe pipe;
    SendRaw(connection.caller.get(), bytes, {pipe.in.get()});
    pipe.in.Close();
    const absl::Status status = ReceivePacket(connection.answerer.get()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a packet of " + std::to_string(bytes) + " bytes"));
    EXPECT_TRUE(pipe.HasEnded()) << "a descriptor was kept";
  }
}

TEST(LocalSocket, RefusesMoreDescriptorsThanAPacketHas) {
  const Connection connection = Connect();
  Pipe pipe;
  SendRaw(connection.caller.get(), sizeof(Packet), {pipe.in.get(), pipe.in.get(), pipe.in.get()});
  pipe.in.Close();
  EXPECT_EQ(ReceivePacket(connection.answerer.get()).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(pipe.HasEnded());
}

TEST(LocalSocket, SaysThatThisProcessCanTakeNoMoreDescriptors) {
  const Connection connection = Connect();
  Pipe pipe;
  const int descriptors[] = {pipe.in.get()};
  ASSERT_TRUE(SendPacket(connection.caller.get(), {}, descriptors).ok());
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = ReceivePacket(connection.answerer.get()).status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace tutti
