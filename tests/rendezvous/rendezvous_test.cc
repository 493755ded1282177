#include "src/rendezvous/rendezvous.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/host.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

std::string Text(const absl::Status& status) { return std::string(status.message()); }

class MeetTest : public testing::Test {
 protected:
  // A listener whose number is handed to rank 0, as a launcher does; no port is free for long otherwise.
  MeetTest() : launcher_(*Listen(*SocketAddress::Parse("127.0.0.1:0"))), port_(LocalAddress(launcher_.get())->port()) {}

  Settings SettingsOf(int rank, int world_size) {
    Settings settings;
    settings.rank = rank;
    settings.world_size = world_size;
    settings.master_host = "127.0.0.1";
    settings.master_port = port_;
    if (rank == 0) settings.store_fd = launcher_.get();
    return settings;
  }

  absl::StatusOr<MeetingPoint> Meet(const Settings& settings, absl::Duration timeout = kPatience) {
    return tutti::Meet(*loop_, settings, absl::Now() + timeout);
  }

  // Rank 0 and rank 1 of `host` talk.
  void ExpectMeeting(const Settings& first, const Settings& second) {
    absl::StatusOr<MeetingPoint> point_0 = Meet(first);
    ASSERT_TRUE(point_0.ok()) << point_0.status();
    ASSERT_TRUE(point_0->store->Set("key", "value").ok());
    absl::StatusOr<MeetingPoint> point_1 = Meet(second);
    ASSERT_TRUE(point_1.ok()) << point_1.status();
    EXPECT_EQ(*point_1->store->Get("key", absl::Now() + kPatience), "value");
    EXPECT_EQ(point_0->self.host_id, point_1->self.host_id);
    point_1->store.reset();
  }

  std::unique_ptr<EventLoop> loop_ = *EventLoop::Start("test");
  Fd launcher_;
  const uint16_t port_;
};

TEST_F(MeetTest, BringsTheRanksTogether) {
  ExpectMeeting(SettingsOf(0, 2), SettingsOf(1, 2));
  // Again with the same socket: for a later group of the process.
  ExpectMeeting(SettingsOf(0, 2), SettingsOf(1, 2));
}

TEST_F(MeetTest, PresentsThisProcess) {
  Settings settings = SettingsOf(0, 2);
  settings.job_id = "my-job";
  absl::StatusOr<MeetingPoint> point = Meet(settings);
  ASSERT_TRUE(point.ok()) << point.status();
  EXPECT_EQ(point->self.job_id, "my-job");
  EXPECT_EQ(point->self.rank, 0);
  EXPECT_EQ(point->self.world_size, 2);
  EXPECT_EQ(point->self.pid, getpid());
  EXPECT_EQ(point->self.host_id, absl::StrCat(ThisHost().hostname, "/", ThisHost().boot_id));
  EXPECT_TRUE(point->address.IsLoopback());
  EXPECT_EQ(point->address.port(), 0);
  EXPECT_THAT(point->choices, Contains("interface = 127.0.0.1 (lo: routes to the master 127.0.0.1)"));
  EXPECT_THAT(point->choices, Contains(HasSubstr(absl::StrCat("store = served at 127.0.0.1:", port_))));
  point->store.reset();
  settings.host_id = "h7";
  EXPECT_EQ(Meet(settings)->self.host_id, "h7");
}

TEST_F(MeetTest, ListensOnTheMastersOwnAddressOnly) {
  launcher_.Close();
  for (const char* host : {"127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1", "localhost"}) {
    Settings settings = SettingsOf(0, 1);
    settings.store_fd = -1;
    settings.master_port = 0;
    settings.master_host = host;
    const absl::StatusOr<MeetingPoint> point = Meet(settings);
    ASSERT_TRUE(point.ok()) << host << ": " << point.status();
    EXPECT_THAT(point->choices, Contains(AnyOf(HasSubstr("served at 127.0.0.1:"), HasSubstr("served at 127.0.0.2:"),
                                               HasSubstr("served at [::1]:"))));
  }
}

TEST_F(MeetTest, SpeaksIpv6WhereThereIs) {
  const absl::StatusOr<Fd> v6 = Listen(*SocketAddress::Parse("[::1]:0"));
  if (!v6.ok()) GTEST_SKIP() << "this host has no IPv6: " << v6.status();
  Settings first = SettingsOf(0, 2), second = SettingsOf(1, 2);
  first.store_fd = v6->get();
  first.master_host = second.master_host = "::1";
  first.master_port = second.master_port = LocalAddress(v6->get())->port();
  ExpectMeeting(first, second);
}

TEST_F(MeetTest, NamesTheOtherRankZeroThatOwnsThePort) {
  absl::StatusOr<MeetingPoint> first = Meet(SettingsOf(0, 2));
  ASSERT_TRUE(first.ok()) << first.status();
  Settings settings = SettingsOf(0, 2);
  settings.store_fd = -1;
  const absl::Status second = Meet(settings).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(second), AllOf(HasSubstr("another rank 0 of this job"), HasSubstr(absl::StrCat("pid ", getpid())),
                                  HasSubstr(absl::StrCat("owns port ", port_))));
  settings.job_id = "another";
  EXPECT_THAT(Text(Meet(settings).status()), HasSubstr("of job \"default\""));
}

TEST_F(MeetTest, SaysWhenAnotherProgramOwnsThePort) {
  Settings settings = SettingsOf(0, 2);
  settings.store_fd = -1;
  std::thread program([this] {  // takes the call, and hangs up
    const absl::Time end = absl::Now() + kPatience;
    while (absl::Now() < end && !Accept(launcher_.get()).ok()) absl::SleepFor(absl::Milliseconds(1));
  });
  const absl::Status status = Meet(settings).status();
  program.join();
  EXPECT_THAT(Text(status), HasSubstr(absl::StrCat("port ", port_, " is in use by another program")));
}

TEST_F(MeetTest, RefusesADescriptorThatDoesNotListen) {
  Settings settings = SettingsOf(0, 2);
  const Fd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int number : {file.get(), 1 << 20}) {
    settings.store_fd = number;
    const absl::Status status = Meet(settings).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), HasSubstr(absl::StrCat("TUTTI_STORE_FD=", number)));
  }
}

TEST_F(MeetTest, AsksForRankZeroWhenNobodyServes) {
  const Settings settings = SettingsOf(1, 2);
  launcher_.Close();
  const absl::Status status = Meet(settings, absl::Milliseconds(300)).status();
  EXPECT_THAT(Text(status), AllOf(HasSubstr(absl::StrCat("127.0.0.1:", settings.master_port)), HasSubstr("refused"),
                                  HasSubstr("is rank 0 started")));
}

TEST_F(MeetTest, TriesNamesThatDoNotResolveUntilTheDeadline) {
  Settings settings = SettingsOf(1, 2);
  settings.master_host = "no-such-host.invalid";
  const absl::Status status = Meet(settings, absl::Milliseconds(700)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(status), AllOf(HasSubstr("\"no-such-host.invalid\""), HasSubstr("tried "), HasSubstr(" times in ")));
}

TEST_F(MeetTest, RefusesAnInterfaceThatThereIsNot) {
  Settings settings = SettingsOf(0, 2);
  settings.socket_interface = "nope0";
  EXPECT_THAT(Text(Meet(settings).status()), AllOf(HasSubstr("\"nope0\""), HasSubstr("lo 127.0.0.1/8")));
}

TEST_F(MeetTest, RefusesAnotherWorldSize) {
  absl::StatusOr<MeetingPoint> first = Meet(SettingsOf(0, 2));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Text(Meet(SettingsOf(1, 4)).status()), HasSubstr("world size"));
}

TEST_F(MeetTest, MeetsInAFile) {
  std::string folder = absl::StrCat(testing::TempDir(), "/tutti-meet-XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Settings first = SettingsOf(0, 2), second = SettingsOf(1, 2);
  for (Settings* settings : {&first, &second}) {
    settings->scheme = Scheme::kFile;
    settings->file_path = absl::StrCat(folder, "/meeting");
    settings->socket_interface = "lo";
  }
  ExpectMeeting(first, second);
  EXPECT_EQ(rmdir(folder.c_str()), 0) << "the last one removes the file";
}

}  // namespace
}  // namespace tutti
