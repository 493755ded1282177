#include "src/base/cpu_set.h"

#include <initializer_list>

#include "gtest/gtest.h"

namespace tutti {
namespace {

CpuSet Of(std::initializer_list<size_t> numbers) {
  CpuSet cpus;
  for (const size_t cpu : numbers) cpus.set(cpu);
  return cpus;
}

TEST(CpuSet, IsWrittenInRanges) {
  EXPECT_EQ(CpuList(CpuSet(), 100), "");
  EXPECT_EQ(CpuList(Of({0}), 100), "0");
  EXPECT_EQ(CpuList(Of({0, 1, 2, 3, 8}), 100), "0-3,8");
  EXPECT_EQ(CpuList(Of({5, 7, 8, 8190, 8191}), 100), "5,7-8,8190-8191");
  EXPECT_EQ(CpuList(CpuSet().set(), 100), "0-8191");
}

TEST(CpuSet, LosesItsLastRangesWhereTheyDoNotFit) {
  const CpuSet cpus = Of({1, 3, 10, 11, 12});
  EXPECT_EQ(CpuList(cpus, 9), "1,3,10-12");
  EXPECT_EQ(CpuList(cpus, 8), "1,3");
  EXPECT_EQ(CpuList(cpus, 0), "");
}

TEST(CpuSet, IsReadAsItIsWritten) {
  for (const CpuSet& cpus : {CpuSet(), Of({0}), Of({1, 2, 3, 63, 64, 65, 1023, 1024}), Of({8191}), CpuSet().set()}) {
    const absl::StatusOr<CpuSet> read = ParseCpuList(CpuList(cpus, 1000));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, cpus);
  }
  EXPECT_EQ(ParseCpuList("4-6,1,5-8,1-1").value(), Of({1, 4, 5, 6, 7, 8}));
}

TEST(CpuSet, IsNotReadFromRubbish) {
  for (const char* text : {" ",
                           ",",
                           "1,",
                           ",1",
                           "1,,2",
                           "-",
                           "-1",
                           "1-",
                           "1-2-3",
                           "3-1",
                           "0x1",
                           "+1",
                           " 1",
                           "1 ",
                           "a",
                           "1.5",
                           "8192",
                           "0-8192",
                           "99999999999999999999",
                           "0-18446744073709551616",
                           "1;2"}) {
    EXPECT_EQ(ParseCpuList(text).status().code(), absl::StatusCode::kInvalidArgument) << "\"" << text << "\"";
  }
}

}  // namespace
}  // namespace tutti
