#include "src/store/waiting_calls.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class WaitingCallsTest : public testing::Test {
 protected:
  void Wait(uint64_t client, uint64_t call, std::vector<std::string> keys) {
    waiting_.Add({client, call}, {.verb = Verb::kWait, .keys = std::move(keys), .values = {}});
  }
  // Sets the key; the calls that are woken.
  std::vector<uint64_t> Set(const std::string& key) {
    dictionary_.Apply({.verb = Verb::kSet, .keys = {key}, .values = {""}});
    std::vector<uint64_t> calls;
    for (const auto& [id, request] : waiting_.Wake(key)) calls.push_back(id.call);
    return calls;
  }
  void Delete(const std::string& key) { dictionary_.Apply({.verb = Verb::kDelete, .keys = {key}, .values = {}}); }

  Dictionary dictionary_;
  WaitingCalls waiting_{dictionary_};
};

TEST_F(WaitingCallsTest, AKeyWakesAllThatWaitForItOnce) {
  Wait(1, 1, {"a"});
  Wait(2, 2, {"a"});
  Wait(2, 3, {"b"});
  EXPECT_THAT(Set("a"), ElementsAre(1, 2));
  EXPECT_THAT(Set("a"), IsEmpty());
  EXPECT_THAT(Set("b"), ElementsAre(3));
}

TEST_F(WaitingCallsTest, ACallWaitsForAllItsKeysInAnyOrder) {
  Wait(1, 1, {"a", "b", "c", "b"});
  EXPECT_THAT(Set("c"), IsEmpty());
  EXPECT_THAT(Set("a"), IsEmpty());
  EXPECT_THAT(Set("b"), ElementsAre(1));
}

TEST_F(WaitingCallsTest, AKeyThatIsDeletedMeanwhileIsWaitedForAgain) {
  Wait(1, 1, {"a", "b"});
  EXPECT_THAT(Set("a"), IsEmpty());
  Delete("a");
  EXPECT_THAT(Set("b"), IsEmpty());
  EXPECT_THAT(Set("a"), ElementsAre(1));
}

TEST_F(WaitingCallsTest, RemovedCallsAreNotWoken) {
  Wait(1, 1, {"a"});
  Wait(1, 2, {"a"});
  EXPECT_TRUE(waiting_.Remove({1, 1}).has_value());
  EXPECT_FALSE(waiting_.Remove({1, 1}).has_value());
  EXPECT_FALSE(waiting_.Remove({2, 2}).has_value());
  EXPECT_THAT(Set("a"), ElementsAre(2));
}

TEST_F(WaitingCallsTest, AClientGoesWithAllItsCalls) {
  Wait(1, 1, {"a"});
  Wait(2, 1, {"a"});
  Wait(2, 2, {"b"});
  Wait(3, 7, {"a"});
  EXPECT_THAT(waiting_.RemoveClient(2), ElementsAre(WaitingCalls::Id{2, 1}, WaitingCalls::Id{2, 2}));
  EXPECT_THAT(Set("b"), IsEmpty());
  EXPECT_THAT(Set("a"), ElementsAre(1, 7));
}

}  // namespace
}  // namespace tutti
