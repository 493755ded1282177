// What the conformance suite does not reach: capacity, and the limits of answers.

#include "src/store/dictionary.h"

#include <string>

#include "gtest/gtest.h"
#include "src/store/store.h"
#include "tests/store/store_test_util.h"

namespace tutti {
namespace {

using enum absl::StatusCode;

Response Set(Dictionary& dictionary, std::string key, std::string value) {
  return dictionary.Apply({.verb = Verb::kSet, .keys = {std::move(key)}, .values = {std::move(value)}});
}

TEST(DictionaryTest, RefusesMoreThanItsCapacityAndTakesMoreOnceThereIsRoom) {
  Dictionary dictionary(1000);
  ASSERT_THAT(Set(dictionary, "a", std::string(600, 'x')).status, IsOk());
  const absl::Status full = Set(dictionary, "b", std::string(600, 'x')).status;
  EXPECT_THAT(full, Fails(kResourceExhausted, "the store is full", "limit of 1000 bytes"));
  EXPECT_FALSE(dictionary.Contains("b"));
  EXPECT_THAT(Set(dictionary, "a", std::string(700, 'y')).status, IsOk()) << "replacing counts the difference";
  EXPECT_EQ(dictionary.Apply({.verb = Verb::kDelete, .keys = {"a"}, .values = {}}).number, 1);
  EXPECT_THAT(Set(dictionary, "b", std::string(600, 'x')).status, IsOk());
}

TEST(DictionaryTest, EveryVerbThatGrowsItKeepsToTheCapacity) {
  Dictionary dictionary(100);  // less than the bookkeeping of one entry
  const std::vector<std::string> key = {"k"};
  for (const Request& request : {Request{.verb = Verb::kSet, .keys = key, .values = {"v"}},
                                 Request{.verb = Verb::kAdd, .keys = key, .values = {}, .delta = 1},
                                 Request{.verb = Verb::kCompareSet, .keys = key, .values = {"v"}},
                                 Request{.verb = Verb::kAppend, .keys = key, .values = {"v"}}}) {
    EXPECT_THAT(dictionary.Apply(request).status, Fails(kResourceExhausted)) << VerbName(request.verb);
    EXPECT_FALSE(dictionary.Contains("k"));
  }
}

TEST(DictionaryTest, AnswersKeepToTheLimitOfACall) {
  Dictionary dictionary;
  ASSERT_THAT(Set(dictionary, "k", std::string(StoreLimits::kValueBytes, 'v')).status, IsOk());
  const auto get = [&](size_t count) {
    return dictionary.Apply({.verb = Verb::kGet, .keys = std::vector<std::string>(count, "k"), .values = {}}).status;
  };
  EXPECT_THAT(get(4), IsOk());
  EXPECT_THAT(get(5), Fails(kInvalidArgument, "the 5 values have 83886080 bytes", "67108864"));
}

TEST(DictionaryTest, ListsKeepToTheLimitOfKeys) {
  Dictionary dictionary;
  for (size_t i = 0; i < StoreLimits::kKeysPerCall; ++i) Set(dictionary, absl::StrCat("k", i), "");
  const Request list{.verb = Verb::kList, .keys = {"k"}, .values = {}};
  EXPECT_EQ(dictionary.Apply(list).values.size(), StoreLimits::kKeysPerCall);
  Set(dictionary, "kk", "");
  EXPECT_THAT(dictionary.Apply(list).status, Fails(kInvalidArgument, "65536", "longer prefix"));
}

TEST(DictionaryTest, VersionCountsChangesOnly) {
  Dictionary dictionary;
  Set(dictionary, "k", "1");
  const uint64_t version = dictionary.version();
  for (const Request& request : {Request{.verb = Verb::kGet, .keys = {"k"}, .values = {}},
                                 Request{.verb = Verb::kDelete, .keys = {"absent"}, .values = {}},
                                 Request{.verb = Verb::kCompareSet, .keys = {"k"}, .values = {"2", "3"}}}) {
    dictionary.Apply(request);
    EXPECT_EQ(dictionary.version(), version) << VerbName(request.verb);
  }
  dictionary.Apply({.verb = Verb::kAdd, .keys = {"k"}, .values = {}, .delta = 1});
  EXPECT_GT(dictionary.version(), version);
}

TEST(DictionaryTest, MessagesNameSomeOfManyMissingKeys) {
  Dictionary dictionary;
  Request request{.verb = Verb::kWait, .keys = {}, .values = {}};
  for (int i = 0; i < 100; ++i) request.keys.push_back(absl::StrCat("key-", i));
  request.keys.push_back(std::string("\0\n", 2) + std::string(4000, 'x'));
  const absl::Status status = dictionary.Apply(request).status;
  EXPECT_THAT(status, Fails(kDeadlineExceeded, "101 of 101 keys missing: \"key-0\", \"key-1\"", "and 85 more"));
  EXPECT_LT(status.message().size(), 1000u);
  EXPECT_EQ(QuoteKey(request.keys.back()).substr(0, 8), "\"\\x00\\nx");
}

}  // namespace
}  // namespace tutti
