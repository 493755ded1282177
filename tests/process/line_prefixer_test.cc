#include "tools/tutti_run/line_prefixer.h"

#include <string>

#include "gtest/gtest.h"

namespace tutti::launch {
namespace {

TEST(LinePrefixerTest, PutsThePrefixBeforeEachLine) {
  LinePrefixer lines("[3] ");
  EXPECT_EQ(lines.Append("one\n\ntwo\n"), "[3] one\n[3] \n[3] two\n");
  EXPECT_EQ(lines.Finish(), "");
}

TEST(LinePrefixerTest, HoldsALineBackUntilItEnds) {
  LinePrefixer lines("> ");
  EXPECT_EQ(lines.Append("a"), "");
  EXPECT_EQ(lines.Append("b"), "");
  EXPECT_EQ(lines.Append("c\nd"), "> abc\n");
  EXPECT_EQ(lines.Finish(), "> d\n");
  EXPECT_EQ(lines.Finish(), "");
}

TEST(LinePrefixerTest, TakesAReturnForTheEndOfAProgressLine) {
  LinePrefixer lines("> ");
  EXPECT_EQ(lines.Append("10%\r20%\r"), "> 10%\r");
  EXPECT_EQ(lines.Append("30%\r"), "> 20%\r");
  EXPECT_EQ(lines.Finish(), "> 30%\r");
}

TEST(LinePrefixerTest, KeepsReturnAndNewlineTogetherHoweverTheyArrive) {
  LinePrefixer lines("> ");
  EXPECT_EQ(lines.Append("a\r\nb\r"), "> a\r\n");
  EXPECT_EQ(lines.Append("\nc\n"), "> b\r\n> c\n");
}

TEST(LinePrefixerTest, CutsALineThatDoesNotEnd) {
  LinePrefixer lines("> ", 4);
  EXPECT_EQ(lines.Append("abcdefghij"), "> abcd\n> efgh\n");
  EXPECT_EQ(lines.Append("k\n"), "> ijk\n");
}

TEST(LinePrefixerTest, LeavesALineOfTheGreatestSizeWhole) {
  for (const std::string ending : {"\n", "\r\n"}) {
    LinePrefixer lines("> ", 4);
    EXPECT_EQ(lines.Append("abcd" + ending), "> abcd" + ending);
    EXPECT_EQ(lines.Append("abcde" + ending), "> abcd\n> e" + ending);
  }
}

TEST(LinePrefixerTest, GivesTheSameLinesHoweverTheBytesArrive) {
  const std::string text = "one\ntwo\r\nthree\rfour\n\n\rfive\r\r\nsix, which is longer than allowed\nend";
  LinePrefixer at_once("> ", 8);
  std::string expected = at_once.Append(text);
  expected += at_once.Finish();
  for (size_t piece = 1; piece < text.size(); ++piece) {
    LinePrefixer in_pieces("> ", 8);
    std::string result;
    for (size_t at = 0; at < text.size(); at += piece) result += in_pieces.Append(text.substr(at, piece));
    result += in_pieces.Finish();
    EXPECT_EQ(result, expected) << "in pieces of " << piece;
  }
}

TEST(LinePrefixerTest, PassesBytesThatAreNotText) {
  LinePrefixer lines("> ");
  EXPECT_EQ(lines.Append(absl::string_view("\0\xff\n", 3)), std::string("> \0\xff\n", 5));
}

}  // namespace
}  // namespace tutti::launch
