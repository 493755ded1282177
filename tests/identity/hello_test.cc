#include "src/identity/hello.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Identity SomeIdentity(int rank, const std::string& hostname, int64_t pid) {
  Identity identity;
  identity.version = "0.1.0";
  identity.job_id = "job-7";
  identity.generation = 3;
  identity.rank = rank;
  identity.world_size = 4;
  identity.hostname = hostname;
  identity.host_id = hostname + "-id";
  identity.boot_id = "9f1b";
  identity.pid = pid;
  identity.configuration = 0xfedcba9876543210;
  return identity;
}

Hello SomeHello() {
  Hello hello;
  hello.purpose = "data";
  hello.from = SomeIdentity(2, "host-a", 4711);
  hello.channel = 1;
  return hello;
}

void ExpectEqual(const Hello& a, const Hello& b) {
  EXPECT_EQ(a.purpose, b.purpose);
  EXPECT_EQ(a.refusal, b.refusal);
  EXPECT_EQ(a.temporary, b.temporary);
  EXPECT_EQ(a.channel, b.channel);
  EXPECT_EQ(a.signature, b.signature);
  EXPECT_EQ(a.from.protocol, b.from.protocol);
  EXPECT_EQ(a.from.version, b.from.version);
  EXPECT_EQ(a.from.job_id, b.from.job_id);
  EXPECT_EQ(a.from.generation, b.from.generation);
  EXPECT_EQ(a.from.rank, b.from.rank);
  EXPECT_EQ(a.from.world_size, b.from.world_size);
  EXPECT_EQ(a.from.hostname, b.from.hostname);
  EXPECT_EQ(a.from.host_id, b.from.host_id);
  EXPECT_EQ(a.from.boot_id, b.from.boot_id);
  EXPECT_EQ(a.from.pid, b.from.pid);
  EXPECT_EQ(a.from.configuration, b.from.configuration);
}

void ExpectDecodes(const Hello& hello) {
  const std::string text = Encode(hello);
  EXPECT_LE(text.size(), kHelloBytesMax);
  absl::StatusOr<Hello> decoded = DecodeHello(text);
  ASSERT_TRUE(decoded.ok()) << decoded.status() << "\n" << text;
  ExpectEqual(*decoded, hello);
}

// A valid hello with one piece of its text replaced.
absl::Status DecodeChanged(const std::string& piece, const std::string& replacement) {
  const std::string text = Encode(SomeHello());
  EXPECT_THAT(text, HasSubstr(piece));
  return DecodeHello(absl::StrReplaceAll(text, {{piece, replacement}})).status();
}

TEST(HelloTest, DecodesWhatItEncodes) {
  ExpectDecodes(SomeHello());
  Hello hello = SomeHello();
  hello.temporary = true;
  hello.refusal = "rank 2 is taken\nby \"another\" one \xC3\xA4";
  hello.signature = std::string(64, 'f');
  hello.from.generation = std::numeric_limits<uint64_t>::max();
  hello.from.configuration = 0;
  hello.from.job_id = std::string(256, 'j');
  ExpectDecodes(hello);
}

TEST(HelloTest, CutsLongTextsToTheirBounds) {
  Hello hello = SomeHello();
  // The cut must not leave half of a two-byte character.
  hello.from.hostname = std::string(255, 'h') + "\xC3\xA4";
  hello.refusal = std::string(5000, 'r');
  absl::StatusOr<Hello> decoded = DecodeHello(Encode(hello));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->from.hostname, std::string(255, 'h'));
  EXPECT_EQ(decoded->refusal, std::string(1024, 'r'));
}

TEST(HelloTest, ARefusalThatNeedsEscapesStillFits) {
  Hello hello = SomeHello();
  hello.refusal = std::string(5000, '\x01');
  const std::string text = Encode(hello);
  EXPECT_LE(text.size(), kHelloBytesMax);
  absl::StatusOr<Hello> decoded = DecodeHello(text);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_GE(decoded->refusal.size(), 64u);
}

TEST(HelloTest, BytesThatAreNoTextDoNotBreakEncoding) {
  Hello hello = SomeHello();
  hello.from.hostname = "h\xFF\xC3";
  absl::StatusOr<Hello> decoded = DecodeHello(Encode(hello));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->from.hostname, "h\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(HelloTest, PassesOverUnknownFields) { EXPECT_TRUE(DecodeChanged("{", "{\"later\":[1,{\"x\":null}],").ok()); }

TEST(HelloTest, RefusesWhatIsNoObject) {
  for (const char* text : {"", "{", "[]", "null", "\"hello\"", "7", "GET / HTTP/1.1", "{}x", "\xFF\xFE"}) {
    EXPECT_EQ(DecodeHello(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(DecodeHello(std::string(4000, '[')).ok());
}

TEST(HelloTest, RefusesMoreBytesThanAHelloHas) {
  std::string text = Encode(SomeHello());
  text.append(kHelloBytesMax + 1 - text.size(), ' ');
  EXPECT_FALSE(DecodeHello(text).ok());
  text.pop_back();
  EXPECT_TRUE(DecodeHello(text).ok());
}

TEST(HelloTest, NamesAFieldThatIsMissing) {
  for (const char* name : {"purpose", "protocol", "version", "job_id", "generation", "rank", "world_size", "hostname",
                           "host_id", "boot_id", "pid", "configuration"}) {
    absl::Status status = DecodeChanged(absl::StrCat("\"", name, "\":"), "\"renamed\":");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(name, " is missing")));
  }
}

TEST(HelloTest, NamesAFieldOfTheWrongTypeOrRange) {
  const std::vector<std::vector<std::string>> changes = {
      {"rank", "\"rank\":2", "\"rank\":-1"},
      {"rank", "\"rank\":2", "\"rank\":1048577"},
      {"rank", "\"rank\":2", "\"rank\":4294967298"},
      {"rank", "\"rank\":2", "\"rank\":2.0"},
      {"rank", "\"rank\":2", "\"rank\":\"2\""},
      {"rank", "\"rank\":2", "\"rank\":true"},
      {"rank", "\"rank\":2", "\"rank\":null"},
      {"rank", "\"rank\":2", "\"rank\":1e400"},
      {"rank", "\"rank\":2", "\"rank\":99999999999999999999999"},
      {"world_size", "\"world_size\":4", "\"world_size\":0"},
      {"protocol", "\"protocol\":1", "\"protocol\":0"},
      {"channel", "\"channel\":1", "\"channel\":[1]"},
      {"pid", "\"pid\":4711", "\"pid\":-4711"},
      {"generation", "\"generation\":3", "\"generation\":-3"},
      {"generation", "\"generation\":3", "\"generation\":3.5"},
      {"generation", "\"generation\":3", "\"generation\":\"3\""},
      {"job_id", "\"job_id\":\"job-7\"", "\"job_id\":7"},
      {"hostname", "\"hostname\":\"host-a\"", absl::StrCat("\"hostname\":\"", std::string(257, 'h'), "\"")},
  };
  for (const std::vector<std::string>& change : changes) {
    absl::Status status = DecodeChanged(change[1], change[2]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << change[2];
    EXPECT_EQ(std::string(status.message()).rfind("not a hello", 0), 0u) << status;
    if (change[2].find("e400") == std::string::npos) {  // which is no JSON number
      EXPECT_THAT(std::string(status.message()), HasSubstr(change[0]));
    }
  }
}

TEST(HelloTest, OfAnotherProtocolOnlyTheNumberIsNeeded) {
  absl::StatusOr<Hello> hello = DecodeHello("{\"protocol\":2}");
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->from.protocol, 2);
  EXPECT_FALSE(DecodeHello("{\"protocol\":1}").ok());
  EXPECT_FALSE(DecodeHello("{\"protocol\":2,\"rank\":-1}").ok());
}

TEST(HelloTest, RandomChangesAreDecodedOrRefusedNeverWorse) {
  Hello hello = SomeHello();
  hello.refusal = "some \"reason\" \xC3\xA4";
  const std::string valid = Encode(hello);
  std::mt19937 random(20240607);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = valid;
    for (uint32_t change = random() % 4 + 1; change > 0; --change) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 16));
          break;
        default:
          text.insert(at, 1, "{}[]\",:-0e\\"[random() % 11]);
      }
      if (text.empty()) break;
    }
    absl::StatusOr<Hello> decoded = DecodeHello(text);
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
      ++refused;
      continue;
    }
    EXPECT_GE(decoded->from.rank, 0);
    EXPECT_GE(decoded->from.world_size, 1);
    EXPECT_LE(decoded->from.hostname.size(), 256u);
    // What was believed can be said again.
    absl::StatusOr<Hello> again = DecodeHello(Encode(*decoded));
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    ExpectEqual(*again, *decoded);
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 5000);
}

TEST(IdentityTest, IsDescribedByRankHostAndPid) {
  EXPECT_EQ(Describe(SomeIdentity(2, "host-a", 4711)), "rank 2 (host-a, pid 4711)");
  EXPECT_EQ(Describe(SomeIdentity(2, "host\n\x1b[2J", 4711)), "rank 2 (host\\n\\x1b[2J, pid 4711)");
}

class CheckSameJobTest : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& what, const std::string& own, const std::string& theirs) {
    absl::Status status = CheckSameJob(self_, other_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(what), HasSubstr(absl::StrCat(Describe(self_), " has ", own)),
                      HasSubstr(absl::StrCat(Describe(other_), " has ", theirs))));
  }

  Identity self_ = SomeIdentity(0, "host-a", 100);
  Identity other_ = SomeIdentity(3, "host-b", 200);
};

TEST_F(CheckSameJobTest, RanksOfOneJobAgree) {
  EXPECT_TRUE(CheckSameJob(self_, other_).ok());
  EXPECT_TRUE(CheckSameJob(self_, self_).ok()) << "duplicates are found elsewhere";
}

TEST_F(CheckSameJobTest, NamesEachDifferenceWithBothValues) {
  const Identity same = other_;
  other_.protocol = 2;
  ExpectRefused("the protocol differs", "1 (library \"0.1.0\")", "2 (library \"0.1.0\")");
  other_ = same;
  other_.version = "0.2.0";
  ExpectRefused("the library version differs", "\"0.1.0\"", "\"0.2.0\"");
  other_ = same;
  other_.job_id = "job-8\n";
  ExpectRefused("the job differs", "\"job-7\"", "\"job-8\\n\"");
  other_ = same;
  other_.generation = 4;
  ExpectRefused("the generation differs", "3", "4");
  other_ = same;
  other_.world_size = 8;
  ExpectRefused("the world size differs", "4", "8");
  other_ = same;
  other_.configuration = 1;
  ExpectRefused("the configuration differs", "hash fedcba9876543210", "hash 0000000000000001");
}

TEST_F(CheckSameJobTest, ARankMustBeBelowTheWorldSize) {
  for (int rank : {4, -1}) {
    other_.rank = rank;
    absl::Status status = CheckSameJob(self_, other_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(Describe(other_) + " is out of range"),
                                                     HasSubstr(Describe(self_)), HasSubstr("0 to 3")));
  }
}

TEST_F(CheckSameJobTest, TheMostTellingDifferenceComesFirst) {
  other_.configuration = 1;
  other_.rank = 9;
  EXPECT_THAT(std::string(CheckSameJob(self_, other_).message()), HasSubstr("out of range"));
  other_.world_size = 16;
  EXPECT_THAT(std::string(CheckSameJob(self_, other_).message()), HasSubstr("world size differs"));
  other_.generation = 9;
  EXPECT_THAT(std::string(CheckSameJob(self_, other_).message()), HasSubstr("generation differs"));
  other_.job_id = "other";
  EXPECT_THAT(std::string(CheckSameJob(self_, other_).message()), HasSubstr("job differs"));
  other_.version = "9";
  EXPECT_THAT(std::string(CheckSameJob(self_, other_).message()), HasSubstr("version differs"));
  other_.protocol = 9;
  EXPECT_THAT(std::string(CheckSameJob(self_, other_).message()), HasSubstr("protocol differs"));
}

}  // namespace
}  // namespace tutti
