#include "examples/digits/data.h"

#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace digits {
namespace {

using ::testing::HasSubstr;

std::string Line(int pixel, int label) {
  return absl::StrCat(absl::StrJoin(std::vector<int>(kPixels, pixel), ","), ",", label, "\n");
}

TEST(DigitsDataTest, ReadsThePixelsAndTheLabelOfEachLine) {
  const auto samples = ParseSamples(Line(16, 3) + Line(4, 9));
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 2u);
  EXPECT_EQ((*samples)[0].label, 3);
  EXPECT_EQ((*samples)[0].pixels.front(), 1.0f);
  EXPECT_EQ((*samples)[1].label, 9);
  EXPECT_EQ((*samples)[1].pixels.back(), 0.25f);
}

TEST(DigitsDataTest, NamesTheLineThatIsWrong) {
  for (const auto& [line, said] :
       std::vector<std::pair<std::string, std::string>>{{"1,2,3\n", "3 fields"},
                                                        {Line(17, 1), "\"17\" is not a whole number from 0 to 16"},
                                                        {Line(-1, 1), "\"-1\""},
                                                        {Line(1, 10), "\"10\" is not a whole number from 0 to 9"},
                                                        {"x" + Line(1, 1), "\"x1\""}}) {
    const auto samples = ParseSamples(Line(0, 0) + line);
    EXPECT_EQ(samples.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr("line 2: "));
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr(said));
  }
}

TEST(DigitsDataTest, NamesTheFileThatIsMissing) {
  const auto data = ReadData("no/such/file.csv");
  EXPECT_EQ(data.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(data.status().message()), HasSubstr("no/such/file.csv"));
}

TEST(DigitsDataTest, KeepsEveryFifthSampleForTheTest) {
  const auto data = ReadData(DIGITS_CSV);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->test.size(), 360u);
  EXPECT_EQ(data->training.size(), 1797u - 360u);
}

TEST(DigitsDataTest, ShufflesAlikeFromTheSameSeed) {
  std::vector<Sample> one(20), other(20);
  for (int i = 0; i < 20; ++i) one[i].label = other[i].label = i;
  std::mt19937 random(7), same(7);
  Shuffle(one, random);
  Shuffle(other, same);
  std::vector<int> labels, sorted(20);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(one[i].label, other[i].label);
    labels.push_back(one[i].label);
  }
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_NE(labels, sorted);
  EXPECT_THAT(labels, testing::UnorderedElementsAreArray(sorted));
}

TEST(DigitsDataTest, CutsIntoPiecesThatCoverEverySampleOnce) {
  for (size_t size : {0, 1, 7, 29, 64}) {
    for (int count : {1, 2, 3, 8, 16}) {
      const std::vector<Sample> samples(size);
      const Sample* next = samples.data();
      for (int index = 0; index < count; ++index) {
        const absl::Span<const Sample> piece = Piece(samples, index, count);
        EXPECT_EQ(piece.data(), next);
        EXPECT_GE(piece.size(), size / count);
        EXPECT_LE(piece.size(), size / count + 1);
        next += piece.size();
      }
      EXPECT_EQ(next, samples.data() + size);
    }
  }
}

}  // namespace
}  // namespace digits
