#include "src/rendezvous/membership_messages.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/fake_job.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using Type = MembershipMessage::Type;

TEST(MembershipMessage, SurvivesTheWire) {
  MembershipMessage sent{.type = Type::kHeartbeat,
                         .text = "why \"\n\x01",
                         .cpus = CpuSet().set(0).set(8191),
                         .timeout = absl::Seconds(30),
                         .peer = 2,
                         .code = absl::StatusCode::kAborted,
                         .sequence = 4294967295u,
                         .operation = OperationNote{7, "barrier", "details", UINT64_MAX, true},
                         .latest = OperationNote{8, "all-gather of 4 int8", "", 3, false},
                         .recent = {{7, UINT64_MAX}, {8, 0}},
                         .members = FakeMembers(3)};
  sent.members[2].cpus.set(2).set(3);
  const absl::StatusOr<MembershipMessage> got = DecodeMembershipMessage(Encode(sent), FakeIdentity(1, 3));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->type, sent.type);
  EXPECT_EQ(got->text, sent.text);
  EXPECT_EQ(got->cpus, sent.cpus);
  EXPECT_EQ(got->timeout, sent.timeout);
  EXPECT_EQ(got->peer, sent.peer);
  EXPECT_EQ(got->code, sent.code);
  EXPECT_EQ(got->sequence, sent.sequence);
  ASSERT_TRUE(got->operation.has_value());
  EXPECT_EQ(got->operation->sequence, 7u);
  EXPECT_EQ(got->operation->text, "barrier");
  EXPECT_EQ(got->operation->details, "details");
  EXPECT_EQ(got->operation->fingerprint, UINT64_MAX);
  EXPECT_TRUE(got->operation->done);
  ASSERT_TRUE(got->latest.has_value());
  EXPECT_FALSE(got->latest->done);
  ASSERT_EQ(got->recent.size(), 2u);
  EXPECT_EQ(got->recent[0].history, UINT64_MAX);
  ASSERT_EQ(got->members.size(), 3u);
  EXPECT_EQ(Describe(got->members[2].identity), "rank 2 (host-2, pid 102)");
  EXPECT_EQ(got->members[2].identity.host_id, "id-2");
  EXPECT_EQ(got->members[2].identity.job_id, "job");
  EXPECT_EQ(got->members[2].data_address, "10.0.0.1:2");
  EXPECT_EQ(got->members[1].cpus, CpuSet());
  EXPECT_EQ(got->members[2].cpus, sent.members[2].cpus);
}

TEST(MembershipMessage, StaysWithinItsBounds) {
  for (const char* worst : {"\x01", "\xff", "\""}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += worst;
    const std::string encoded = Encode({.type = Type::kAbort, .text = text});
    EXPECT_LE(encoded.size(), kMembershipMessageBytesMax);
    EXPECT_TRUE(DecodeMembershipMessage(encoded, FakeIdentity(0, 2)).ok()) << "a text cut or replaced is a text";
  }
  EXPECT_LE(Encode({.type = Type::kWelcome, .members = FakeMembers(1000)}).size(), WelcomeBytesMax(1000));
  CpuSet ragged;
  for (size_t cpu = 0; cpu < kCpusMax; cpu += 2) ragged.set(cpu);
  const std::string encoded = Encode({.type = Type::kJoin, .cpus = ragged});
  EXPECT_LE(encoded.size(), 512u);
  EXPECT_TRUE(DecodeMembershipMessage(encoded, FakeIdentity(0, 2)).ok());
}

TEST(MembershipMessage, IsRefusedIfAnythingIsWrong) {
  const char* kBad[] = {"",
                        "GET / HTTP/1.1",
                        "[]",
                        "{",
                        "{}",
                        R"({"type":7})",
                        R"({"type":"unknown"})",
                        R"({"type":"abort","text":7})",
                        R"({"type":"peer-lost","peer":4})",
                        R"({"type":"peer-lost","peer":-1})",
                        R"({"type":"peer-lost","peer":1.5})",
                        R"({"type":"verdict","code":99})",
                        R"({"type":"query","sequence":4294967296})",
                        R"({"type":"join","timeout_ms":-1})",
                        R"({"type":"join","timeout_ms":18446744073709551615})",
                        R"({"type":"join","cpus":7})",
                        R"({"type":"join","cpus":"all"})",
                        R"({"type":"join","cpus":"0-8192"})",
                        R"({"type":"answer","operation":7})",
                        R"({"type":"answer","operation":{"sequence":"x"}})",
                        R"({"type":"heartbeat","recent":{}})",
                        R"({"type":"heartbeat","recent":[[1]]})",
                        R"({"type":"heartbeat","recent":[[1,-1]]})",
                        R"({"type":"heartbeat","recent":[[4294967296,1]]})",
                        R"({"type":"welcome","members":[]})",
                        R"({"type":"welcome","members":[1,2,3,4]})",
                        R"({"type":"welcome","members":[["a","b","c","d","e","0",-1],[],[],[]]})",
                        R"({"type":"welcome","members":[["a","b","c","d","e","x",1],[],[],[]]})",
                        R"({"type":"welcome","members":[["a","b","c","d","e",1],[],[],[]]})"};
  for (const char* payload : kBad) {
    const absl::StatusOr<MembershipMessage> got = DecodeMembershipMessage(payload, FakeIdentity(0, 4));
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << payload;
  }
  std::string many = R"({"type":"heartbeat","recent":[[1,1])";
  for (int i = 0; i < 32; ++i) many += ",[1,1]";
  EXPECT_FALSE(DecodeMembershipMessage(many + "]}", FakeIdentity(0, 4)).ok());
}

}  // namespace
}  // namespace tutti
