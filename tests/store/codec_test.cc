#include "src/store/codec.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/store/tcp_messages.h"
#include "tests/store/store_test_util.h"

namespace tutti {
namespace {

using enum absl::StatusCode;

const std::string kBinary("\0\xff\n", 3);

std::vector<StoreCall> SomeCalls() {
  return {
      {.id = 1, .timeout = absl::Seconds(3), .request = {.verb = Verb::kGet, .keys = {"a", kBinary, ""}, .values = {}}},
      {.id = ~uint64_t{0},
       .timeout = absl::InfiniteDuration(),
       .request = {.verb = Verb::kWait, .keys = {}, .values = {}}},
      {.id = 3, .timeout = {}, .request = {.verb = Verb::kSet, .keys = {"a", "b"}, .values = {kBinary, ""}}},
      {.id = 4, .timeout = {}, .request = {.verb = Verb::kAdd, .keys = {"n"}, .values = {}, .delta = -5}},
      {.id = 5, .timeout = {}, .request = {.verb = Verb::kCompareSet, .keys = {"k"}, .values = {"new", "old"}}},
  };
}

TEST(CodecTest, CallsComeBackAsTheyWere) {
  for (const StoreCall& call : SomeCalls()) {
    const absl::StatusOr<StoreCall> decoded = DecodeStoreCall(Encode(call));
    ASSERT_THAT(decoded, IsOk());
    EXPECT_EQ(decoded->id, call.id);
    EXPECT_EQ(decoded->timeout, call.timeout);
    EXPECT_EQ(decoded->request.verb, call.request.verb);
    EXPECT_EQ(decoded->request.keys, call.request.keys);
    EXPECT_EQ(decoded->request.values, call.request.values);
    EXPECT_EQ(decoded->request.delta, call.request.delta);
  }
}

TEST(CodecTest, AnswersComeBackAsTheyWere) {
  const StoreAnswer answer{
      .id = 7, .response = {.status = absl::NotFoundError("why\n"), .values = {kBinary, "", "x"}, .number = -9}};
  const auto decoded = DecodeStoreAnswer(Encode(answer));
  ASSERT_THAT(decoded, IsOk());
  ASSERT_TRUE(decoded->has_value());
  EXPECT_EQ((*decoded)->id, 7u);
  EXPECT_EQ((*decoded)->response.status, answer.response.status);
  EXPECT_EQ((*decoded)->response.values, answer.response.values);
  EXPECT_EQ((*decoded)->response.number, -9);

  const auto ended = DecodeStoreAnswer(EncodeStoreEnded());
  ASSERT_THAT(ended, IsOk());
  EXPECT_FALSE(ended->has_value());
}

TEST(CodecTest, NumbersAreLittleEndian) {
  Writer writer;
  writer.U8(0xab);
  writer.U32(0x01020304);
  writer.Bytes("x");
  EXPECT_EQ(writer.Take(), std::string("\xab\x04\x03\x02\x01\x01\0\0\0x", 10));
}

TEST(CodecTest, EveryTruncationAndEveryExtraByteIsRefused) {
  for (const StoreCall& call : SomeCalls()) {
    const std::string bytes = Encode(call);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THAT(DecodeStoreCall(bytes.substr(0, size)).status(), Fails(kInvalidArgument, "malformed")) << size;
    }
    EXPECT_THAT(DecodeStoreCall(bytes + "x").status(), Fails(kInvalidArgument, "1 too many"));
  }
  const std::string bytes = Encode(StoreAnswer{.id = 1, .response = {.status = {}, .values = {"a", "b"}}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeStoreAnswer(bytes.substr(0, size)).status(), Fails(kInvalidArgument, "malformed")) << size;
  }
}

TEST(CodecTest, CountsAndLengthsAreNotBelievedBeyondTheBytes) {
  Writer count;
  count.U32(0xffffffff);
  const std::string huge_count = count.Take() + std::string(64, '\0');
  Reader counted(huge_count);
  EXPECT_TRUE(counted.Strings(0xffffffff, 10).empty());
  EXPECT_THAT(counted.Finish(), Fails(kInvalidArgument, "out of bounds"));

  Writer length;
  length.U32(5);
  const std::string short_bytes = length.Take() + "four";
  Reader measured(short_bytes);
  EXPECT_EQ(measured.Bytes(100), "");
  EXPECT_EQ(measured.U8(), 0) << "nothing more once something did not fit";
  EXPECT_THAT(measured.Finish(), Fails(kInvalidArgument, "out of bounds"));
}

TEST(CodecTest, RequestsOutsideTheLimitsAreRefused) {
  const auto decode = [](const Request& request) {
    return DecodeStoreCall(Encode(StoreCall{.id = 1, .timeout = {}, .request = request})).status();
  };
  const std::string long_key(StoreLimits::kKeyBytes + 1, 'k');
  EXPECT_THAT(decode({.verb = Verb::kCheck, .keys = {long_key}, .values = {}}), Fails(kInvalidArgument));
  EXPECT_THAT(decode({.verb = Verb::kCheck, .keys = std::vector<std::string>(65537, "k"), .values = {}}),
              Fails(kInvalidArgument));
  EXPECT_THAT(decode({.verb = Verb::kAdd, .keys = {}, .values = {}}), Fails(kInvalidArgument, "0 keys"));
  EXPECT_THAT(decode({.verb = Verb::kCompareSet, .keys = {"k"}, .values = {}}), Fails(kInvalidArgument, "0 values"));
  EXPECT_THAT(decode({.verb = static_cast<Verb>(99), .keys = {"k"}, .values = {}}), Fails(kInvalidArgument, "99"));
  EXPECT_THAT(decode({.verb = static_cast<Verb>(0), .keys = {"k"}, .values = {}}), Fails(kInvalidArgument, "0"));
}

TEST(CodecTest, TheLargestRequestFitsTheFrame) {
  Request request{.verb = Verb::kSet,
                  .keys = std::vector<std::string>(StoreLimits::kKeysPerCall, "k"),
                  .values = std::vector<std::string>(StoreLimits::kKeysPerCall, "")};
  const size_t rest = StoreLimits::kCallBytes - StoreLimits::kKeysPerCall;
  for (size_t i = 0; i < 64; ++i) request.values[i].assign(rest / 64, 'v');
  ASSERT_THAT(CheckRequest(request), IsOk());
  const std::string bytes = Encode(StoreCall{.id = 1, .timeout = {}, .request = std::move(request)});
  EXPECT_LE(bytes.size(), kStoreFrameLimits.frame_bytes);
  EXPECT_THAT(DecodeStoreCall(bytes), IsOk());
}

TEST(CodecTest, RandomAndDamagedBytesAreTakenOrRefusedButNeverMore) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const auto feed = [](const std::string& bytes) {
    const auto call = DecodeStoreCall(bytes);
    if (call.ok()) {
      EXPECT_THAT(CheckRequest(call->request), IsOk());
    }
    DecodeStoreAnswer(bytes).status().IgnoreError();
  };
  for (int i = 0; i < 5000; ++i) {
    std::string noise(random() % 64, '\0');
    for (char& c : noise) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 4);
    feed(noise);
    std::string damaged = Encode(SomeCalls()[random() % SomeCalls().size()]);
    damaged[random() % damaged.size()] = static_cast<char>(random());
    feed(damaged);
  }
}

}  // namespace
}  // namespace tutti
