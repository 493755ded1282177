#include "src/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "src/base/cgroup.h"

namespace tutti {
namespace {

std::optional<int> Limit(const std::string& self_cgroup, const std::map<std::string, std::string>& files) {
  return CgroupCpuLimit(self_cgroup, [&](const std::string& path) -> std::optional<std::string> {
    auto found = files.find(path);
    if (found == files.end()) return std::nullopt;
    return found->second;
  });
}

TEST(CgroupTest, NoGroupMeansNoLimit) {
  EXPECT_EQ(Limit("", {}), std::nullopt);
  EXPECT_EQ(Limit("0::/user.slice\n", {}), std::nullopt);
}

TEST(CgroupTest, Version2QuotaIsRoundedUp) {
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", "250000 100000\n"}}), 3);
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", "200000 100000\n"}}), 2);
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", "1000 100000\n"}}), 1);
}

TEST(CgroupTest, Version2MaxMeansNoLimit) {
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", "max 100000\n"}}), std::nullopt);
}

TEST(CgroupTest, TheTightestAncestorCounts) {
  EXPECT_EQ(Limit("0::/a/b/c\n", {{"/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n"},
                                  {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                                  {"/sys/fs/cgroup/a/cpu.max", "400000 100000\n"}}),
            4);
}

TEST(CgroupTest, InAContainerTheMountsRootIsItsOwnGroup) {
  EXPECT_EQ(Limit("0::/\n", {{"/sys/fs/cgroup/cpu.max", "150000 100000\n"}}), 2);
  EXPECT_EQ(Limit("4:cpu,cpuacct:/docker/0123\n", {{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"},
                                                   {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}),
            3);
}

TEST(CgroupTest, Version1QuotaOfTheCpuController) {
  const std::map<std::string, std::string> files = {{"/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "450000\n"},
                                                    {"/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(Limit("5:memory:/job\n4:cpuacct,cpu:/job\n", files), 5);
  EXPECT_EQ(Limit("5:cpuset:/job\n", files), std::nullopt);
}

TEST(CgroupTest, Version1MinusOneMeansNoLimit) {
  EXPECT_EQ(Limit("4:cpu:/\n", {{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                                {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}),
            std::nullopt);
}

TEST(CgroupTest, RubbishIsNoLimit) {
  EXPECT_EQ(Limit("rubbish\n0:\n::::\n", {}), std::nullopt);
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", ""}}), std::nullopt);
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", "100000 0\n"}}), std::nullopt);
  EXPECT_EQ(Limit("0::/job\n", {{"/sys/fs/cgroup/job/cpu.max", "-5 x\n"}}), std::nullopt);
}

TEST(HostTest, KnowsItself) {
  const HostInfo host = ThisHost();
  EXPECT_FALSE(host.hostname.empty());
  EXPECT_EQ(host.boot_id.size(), 36u) << host.boot_id;
  EXPECT_EQ(host.pid, ::getpid());
}

TEST(HostTest, TheAffinityMaskLimitsTheUsableCpus) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_EQ(AllowedCpus().count(), static_cast<size_t>(CPU_COUNT(&before)));
  EXPECT_LE(UsableCpus(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCpus(), 1);
  EXPECT_EQ(AllowedCpus(), CpuSet().set(static_cast<size_t>(first)));
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace tutti
