// Every schedule for a thousand and for thousands of ranks, around powers of two and elsewhere: wide or not, with the
// first, a middle and the last rank as root. A test for each size and collective, since all of them take a minute.
// Under a sanitizer, an eighth of the ranks.

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

// What one schedule has freed the next takes: gigabytes of fresh pages would cost a fifth of the time.
[[maybe_unused]] const bool kKeepsMemory = ::mallopt(M_MMAP_MAX, 0) != 0 && ::mallopt(M_TRIM_THRESHOLD, -1) != 0;

constexpr int Ranks(int count) { return count / TUTTI_SCALE_DIVISOR; }

class ScaleTest : public ::testing::TestWithParam<std::tuple<int, Collective>> {};

TEST_P(ScaleTest, EveryScheduleIsRightAndOneHasFewPeers) {
  const auto [size, collective] = GetParam();
  std::map<int, uint32_t> fewest_peers;  // by root
  for (const ScheduleKey& key : AllKeys(size)) {
    if (key.collective != collective) continue;
    ScheduleCounts counts;
    const absl::Status status = VerifyKey(key, &counts);
    EXPECT_TRUE(status.ok()) << ToString(key) << ": " << status;
    uint32_t& fewest = fewest_peers.try_emplace(key.root, UINT32_MAX).first->second;
    // A ring has few, but is thousands of messages deep.
    if (key.algorithm != Algorithm::kRing) fewest = std::min(fewest, counts.peers);
  }
  EXPECT_EQ(fewest_peers.size(), HasRoot(collective) ? 3u : 1u);
  for (const auto& [root, peers] : fewest_peers) EXPECT_LE(peers, 24u) << "root " << root;
}

std::string NameOf(const ::testing::TestParamInfo<ScaleTest::ParamType>& info) {
  return absl::StrReplaceAll(absl::StrCat(Name(std::get<1>(info.param)), "_", std::get<0>(info.param)), {{"-", "_"}});
}

INSTANTIATE_TEST_SUITE_P(Sizes, ScaleTest,
                         ::testing::Combine(::testing::Values(Ranks(1000), Ranks(1024) - 1, Ranks(1024),
                                                              Ranks(1024) + 1, Ranks(4096) - 1, Ranks(4096)),
                                            ::testing::ValuesIn(kCollectives)),
                         NameOf);

}  // namespace
}  // namespace tutti
