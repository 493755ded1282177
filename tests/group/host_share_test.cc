#include "src/group/host_share.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tutti {
namespace {

struct Rank {
  std::string host;
  std::string cpus;       // as taskset takes them
  std::string boot = "";  // if not the host
};

HostShare Share(const std::vector<Rank>& ranks, std::optional<int> quota = std::nullopt) {
  std::vector<Member> members;
  for (const Rank& rank : ranks) {
    Member& member = members.emplace_back();
    member.identity.host_id = rank.host;
    member.identity.boot_id = rank.boot.empty() ? rank.host : rank.boot;
    member.cpus = ParseCpuList(rank.cpus).value();
  }
  return ShareOfHost(members, members[0].identity, quota);
}

TEST(HostShare, RanksThatMayRunEverywhereShareThatManyProcessors) {
  EXPECT_FALSE(Share({{"here", "0-1"}, {"here", "0-1"}}).oversubscribed());
  EXPECT_TRUE(Share({{"here", "0-1"}, {"here", "0-1"}, {"here", "0-1"}}).oversubscribed());
}

TEST(HostShare, RanksBoundToProcessorsOfTheirOwnHaveEnough) {
  EXPECT_FALSE(Share({{"here", "0"}, {"here", "1"}}).oversubscribed());
  EXPECT_FALSE(Share({{"here", "0-1"}, {"here", "2-3"}, {"here", "4-5"}}).oversubscribed());
}

TEST(HostShare, RanksBoundToOneProcessorDoNot) {
  EXPECT_TRUE(Share({{"here", "0"}, {"here", "0"}}).oversubscribed());
  EXPECT_TRUE(Share({{"here", "0,2"}, {"here", "2"}, {"here", "0"}}).oversubscribed());
}

TEST(HostShare, OtherHostsDoNotCount) {
  EXPECT_TRUE(Share({{"here", "0"}, {"there", "1"}, {"here", "0"}, {"there", "2"}}).oversubscribed());
  EXPECT_FALSE(Share({{"here", "0"}, {"there", "0"}, {"there", "0"}}).oversubscribed());
}

TEST(HostShare, PretendedHostsAndContainersTakeTurnsOnTheProcessorsOfTheirMachine) {
  EXPECT_TRUE(Share({{"a", "0-1", "m"}, {"a", "0-1", "m"}, {"b", "0-1", "m"}, {"b", "0-1", "m"}}).oversubscribed());
  EXPECT_FALSE(Share({{"a", "0-1", "m"}, {"a", "0-1", "m"}, {"b", "2-3", "m"}, {"b", "2-3", "m"}}).oversubscribed());
}

TEST(HostShare, AQuotaIsForTheRanksOfOneHost) {
  const std::vector<Rank> ranks = {{"a", "0-7", "m"}, {"a", "0-7", "m"}, {"b", "0-7", "m"}, {"b", "0-7", "m"}};
  EXPECT_FALSE(Share(ranks, 2).oversubscribed());
  EXPECT_TRUE(Share(ranks, 1).oversubscribed());
}

TEST(HostShare, KernelsWithoutAnIdAreNotTakenForOne) {
  std::vector<Member> members(2);
  members[0].identity.host_id = "a";
  members[1].identity.host_id = "b";
  members[0].cpus.set(0);
  members[1].cpus.set(0);
  EXPECT_FALSE(ShareOfHost(members, members[0].identity, std::nullopt).oversubscribed());
}

TEST(HostShare, IsLimitedByTheQuota) {
  const std::vector<Rank> ranks = {{"here", "0-63"}, {"here", "0-63"}, {"here", "0-63"}};
  EXPECT_FALSE(Share(ranks).oversubscribed());
  EXPECT_FALSE(Share(ranks, 3).oversubscribed());
  EXPECT_TRUE(Share(ranks, 2).oversubscribed());
  EXPECT_EQ(Share(ranks, 100).cpus, 64);
}

TEST(HostShare, SaysWhatItIs) {
  EXPECT_EQ(ToString(Share({{"here", "4"}})), "1 rank of this host on 1 processor");
  EXPECT_EQ(ToString(Share({{"here", "4"}, {"here", "0-2"}})), "2 ranks of this host on 4 processors");
}

}  // namespace
}  // namespace tutti
