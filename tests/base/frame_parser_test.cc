#include "src/base/frame_parser.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/frame_connection.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

// The next payload, which must be there.
std::string Expect(FrameParser& parser) {
  absl::StatusOr<std::optional<std::string>> frame = parser.Next();
  EXPECT_TRUE(frame.ok() && frame->has_value()) << frame.status();
  return frame.ok() ? frame->value_or("") : "";
}

bool WantsMore(FrameParser& parser) {
  absl::StatusOr<std::optional<std::string>> frame = parser.Next();
  return frame.ok() && !frame->has_value();
}

TEST(EncodeFrameTest, IsMagicLittleEndianSizeAndPayload) {
  EXPECT_EQ(EncodeFrame("ab"), std::string("\xF4Tut\x02\x00\x00\x00"
                                           "ab",
                                           10));
  EXPECT_EQ(EncodeFrame(std::string(0x010203, 'x')).substr(0, 8), std::string("\xF4Tut\x03\x02\x01\x00", 8));
}

TEST(FrameParserTest, GivesFramesHoweverTheBytesArrive) {
  const std::vector<std::string> payloads = {"", "a", std::string(5000, 'b'), "", std::string("\0\xF4Tut", 5)};
  std::string stream;
  for (const std::string& payload : payloads) stream += EncodeFrame(payload);
  for (size_t step : {size_t{1}, size_t{3}, size_t{8}, size_t{1000}, stream.size()}) {
    FrameParser parser(5000);
    std::vector<std::string> parsed;
    for (size_t at = 0; at < stream.size(); at += step) {
      parser.Append(absl::string_view(stream).substr(at, step));
      while (true) {
        absl::StatusOr<std::optional<std::string>> frame = parser.Next();
        ASSERT_TRUE(frame.ok()) << frame.status();
        if (!frame->has_value()) break;
        parsed.push_back(**frame);
      }
    }
    EXPECT_EQ(parsed, payloads) << step;
    EXPECT_TRUE(parser.AtBoundary());
  }
}

TEST(FrameParserTest, KnowsABoundary) {
  FrameParser parser(10);
  EXPECT_TRUE(WantsMore(parser));
  EXPECT_TRUE(parser.AtBoundary());
  const std::string frame = EncodeFrame("ab");
  for (size_t i = 0; i + 1 < frame.size(); ++i) {
    parser.Append(frame.substr(i, 1));
    EXPECT_TRUE(WantsMore(parser));
    EXPECT_FALSE(parser.AtBoundary()) << i;
  }
  parser.Append(frame.substr(frame.size() - 1));
  EXPECT_EQ(Expect(parser), "ab");
  EXPECT_TRUE(parser.AtBoundary());
}

TEST(FrameParserTest, ChecksTheMagicByteByByte) {
  const std::string frame = EncodeFrame("ab");
  for (size_t wrong = 0; wrong < 4; ++wrong) {
    FrameParser parser(10);
    parser.Append(frame.substr(0, wrong));
    EXPECT_TRUE(WantsMore(parser));
    parser.Append("?");
    EXPECT_EQ(parser.Next().status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_FALSE(parser.Next().ok()) << "an error stays";
  }
}

TEST(FrameParserTest, ShowsTheFirstBytesEscaped) {
  FrameParser parser(10);
  parser.Append("\x16\x03\x01\n\"abcdefgh");
  EXPECT_EQ(std::string(parser.Next().status().message()),
            "not a Tutti peer: starts with \"\\x16\\x03\\x01\\n\\\"abc\"");
}

TEST(FrameParserTest, AStreamOutOfStepIsNoStranger) {
  FrameParser parser(10);
  parser.Append(EncodeFrame("ab") + "rubbish");
  EXPECT_EQ(Expect(parser), "ab");
  EXPECT_EQ(std::string(parser.Next().status().message()),
            "the stream is out of step: frame 2 starts with \"rubbish\"");
}

TEST(FrameParserTest, TakesTheLargestFrameAndNoLarger) {
  FrameParser parser(10);
  parser.Append(EncodeFrame(std::string(10, 'x')));
  EXPECT_EQ(Expect(parser), std::string(10, 'x'));
  parser.Append(EncodeFrame(std::string(11, 'x')).substr(0, 8));
  EXPECT_THAT(std::string(parser.Next().status().message()), HasSubstr("11 bytes is too large"));
}

TEST(FrameParserTest, TheLargestClaimIsRefusedNotAllocated) {
  FrameParser parser(10);
  parser.Append("\xF4Tut\xFF\xFF\xFF\xFF");
  EXPECT_THAT(std::string(parser.Next().status().message()), HasSubstr("4294967295 bytes is too large"));
}

TEST(FrameParserTest, RandomBytesNeverDoMoreThanFail) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 2000; ++round) {
    std::string stream = EncodeFrame("first") + EncodeFrame(std::string(random() % 50, 'x'));
    for (int change = 0; change < 3; ++change) stream[random() % stream.size()] = static_cast<char>(random());
    FrameParser parser(64);
    for (size_t at = 0; at < stream.size();) {
      const size_t step = 1 + random() % 20;
      parser.Append(absl::string_view(stream).substr(at, step));
      at += step;
      for (int i = 0; i < 10; ++i) {
        absl::StatusOr<std::optional<std::string>> frame = parser.Next();
        if (!frame.ok() || !frame->has_value()) break;
        EXPECT_LE((*frame)->size(), 64u);
      }
    }
  }
}

}  // namespace
}  // namespace tutti
