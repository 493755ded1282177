#include "src/rendezvous/shared_settings.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/store/stores.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SharedSettingsTest : public testing::Test {
 protected:
  static Settings Of(int rank, const std::string& selection, int sockets) {
    Settings settings;
    settings.rank = rank;
    settings.world_size = 4;
    settings.selection = selection;
    settings.sockets_per_peer = sockets;
    return settings;
  }

  absl::StatusOr<std::vector<std::string>> Share(Settings& settings, absl::Duration patience = absl::Seconds(20)) {
    return ShareSettings(*store_, settings, absl::Now() + patience);
  }

  std::unique_ptr<Store> store_ = MakeMemoryStore();
};

TEST_F(SharedSettingsTest, AreRankZerosOnAllRanks) {
  Settings first = Of(0, "all-reduce = direct;\n\"quoted\"\tbarrier = bruck", 3);
  Settings other = Of(2, "", 0);
  std::thread waits([&] { EXPECT_THAT(*Share(other), IsEmpty()); });
  EXPECT_THAT(*Share(first), IsEmpty());
  waits.join();
  EXPECT_EQ(other.selection, first.selection);
  EXPECT_EQ(other.sockets_per_peer, 3);
  EXPECT_THAT(other.origins, Contains("sockets per peer = 3 (from rank 0)"));
}

TEST_F(SharedSettingsTest, OverruleWhatARankHasSetAndNameBothValues) {
  Settings first = Of(0, "all-reduce = direct", 0);
  Settings other = Of(2, "all-reduce = gather", 4);
  other.origins = {"selection = \"all-reduce = gather\" (from TUTTI_SELECTION)", "rank = 2 (from RANK)"};
  ASSERT_TRUE(Share(first).ok());
  EXPECT_THAT(*Share(other),
              ElementsAre(AllOf(HasSubstr("TUTTI_SELECTION is \"all-reduce = gather\" on rank 2"),
                                HasSubstr("\"all-reduce = direct\" on rank 0")),
                          AllOf(HasSubstr("TUTTI_SOCKETS_PER_PEER is 4 on rank 2"), HasSubstr("nothing on rank 0"))));
  EXPECT_EQ(other.selection, "all-reduce = direct");
  EXPECT_EQ(other.sockets_per_peer, 0);
  EXPECT_THAT(other.origins, AllOf(Contains("selection = \"all-reduce = direct\" (from rank 0)"),
                                   Contains("rank = 2 (from RANK)"), Not(Contains(HasSubstr("gather")))));
}

TEST_F(SharedSettingsTest, SayNothingWhereAllRanksAgree) {
  Settings first = Of(0, "barrier = bruck", 2), other = first;
  other.rank = 1;
  ASSERT_TRUE(Share(first).ok());
  EXPECT_THAT(*Share(other), IsEmpty());
}

TEST_F(SharedSettingsTest, CanBeAsLongAsAllowed) {
  Settings first = Of(0, std::string(kSelectionBytesMax, '\n'), 0);
  Settings other = Of(1, "", 0);
  ASSERT_TRUE(Share(first).ok());
  ASSERT_TRUE(Share(other).ok());
  EXPECT_EQ(other.selection, first.selection);
}

TEST_F(SharedSettingsTest, AskForRankZeroWhenItIsMissing) {
  Settings other = Of(1, "", 0);
  const absl::Status status = Share(other, absl::Milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 0"), HasSubstr("is it started?")));
}

TEST_F(SharedSettingsTest, RefuseWhatIsNone) {
  for (const std::string text :
       {"", "{", "[]", "{\"selection\":1,\"sockets_per_peer\":1}", "{\"selection\":\"\",\"sockets_per_peer\":17}",
        "{\"selection\":\"\",\"sockets_per_peer\":-1}", "{\"selection\":\"\"}"}) {
    ASSERT_TRUE(store_->Set("settings", text).ok());
    Settings other = Of(1, "", 0);
    EXPECT_EQ(Share(other).status().code(), absl::StatusCode::kInternal) << text;
  }
}

}  // namespace
}  // namespace tutti
