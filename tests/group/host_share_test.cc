#include "src/group/host_share.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tutti {
namespace {

struct Rank {
  std::string host;
  std::string cpus;  // as taskset takes them
};

HostShare Share(const std::vector<Rank>& ranks, std::optional<int> quota = std::nullopt) {
  std::vector<Member> members;
  for (const Rank& rank : ranks) {
    Member& member = members.emplace_back();
    member.identity.host_id = rank.host;
    member.cpus = ParseCpuList(rank.cpus).value();
  }
  return ShareOfHost(members, "here", quota);
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
