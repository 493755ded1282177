// What every store does: one suite, run by each of them.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/event_loop.h"
#include "src/base/thread.h"
#include "src/store/store.h"
#include "src/store/stores.h"
#include "tests/store/store_test_util.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum absl::StatusCode;

// Two views of one dictionary, as two ranks have them.
class Rig {
 public:
  virtual ~Rig() = default;
  virtual Store& a() = 0;
  virtual Store& b() = 0;
};

class MemoryRig : public Rig {
 public:
  Store& a() override { return *store_; }
  Store& b() override { return *store_; }

 private:
  std::unique_ptr<Store> store_ = MakeMemoryStore();
};

class FileRig : public Rig {
 public:
  FileRig() : a_(Open(0)), b_(Open(1)) {}
  Store& a() override { return *a_; }
  Store& b() override { return *b_; }

 private:
  std::unique_ptr<Store> Open(int rank) {
    return OpenFileStore(directory_.File("store"), TestIdentity(rank, 2), Soon()).value();
  }

  TestDirectory directory_;
  std::unique_ptr<Store> a_, b_;
};

class TcpRig : public Rig {
 public:
  TcpRig() : a_(Connect(0)), b_(Connect(1)) {}
  Store& a() override { return *a_; }
  Store& b() override { return *b_; }

 private:
  std::unique_ptr<Store> Connect(int rank) {
    return ConnectTcpStore(*loop_, {server_->address()}, TestIdentity(rank, 2), Soon()).value();
  }

  std::unique_ptr<EventLoop> loop_ = EventLoop::Start("store-test").value();
  std::unique_ptr<TcpStoreServer> server_ =
      TcpStoreServer::Start(*loop_, Listen(SocketAddress::Parse("127.0.0.1:0").value()).value(), TestIdentity(0, 2))
          .value();
  std::unique_ptr<Store> a_, b_;
};

template <typename Base>
class PrefixRig : public Rig {
 public:
  PrefixRig() {
    // A neighbour's keys must not show.
    EXPECT_THAT(base_->a().Set("neighbour/key", "value"), IsOk());
    EXPECT_THAT(base_->a().Set("us", "value"), IsOk());
  }
  Store& a() override { return *a_; }
  Store& b() override { return *b_; }

 private:
  std::shared_ptr<Base> base_ = std::make_shared<Base>();
  std::unique_ptr<Store> a_ = MakePrefixStore(std::shared_ptr<Store>(base_, &base_->a()), "us");
  std::unique_ptr<Store> b_ = MakePrefixStore(std::shared_ptr<Store>(base_, &base_->b()), "us");
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Rig>()> make;
};

template <typename T>
Kind KindOf(std::string name) {
  return {std::move(name), [] { return std::make_unique<T>(); }};
}

class StoreConformanceTest : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Rig> rig_ = GetParam().make();
  Store& a_ = rig_->a();
  Store& b_ = rig_->b();
  // As errors name the store: a prefix shows in the keys instead.
  const std::string name_ = a_.Describe().substr(0, a_.Describe().find(" under "));
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest,
                         testing::Values(KindOf<MemoryRig>("Memory"), KindOf<PrefixRig<MemoryRig>>("PrefixOfMemory"),
                                         KindOf<FileRig>("File"), KindOf<TcpRig>("Tcp"),
                                         KindOf<PrefixRig<TcpRig>>("PrefixOfTcp")),
                         [](const testing::TestParamInfo<Kind>& kind) { return kind.param.name; });

TEST_P(StoreConformanceTest, GetReturnsWhatAnotherRankSetLast) {
  ASSERT_THAT(a_.Set("key", "one"), IsOk());
  EXPECT_EQ(b_.Get("key", Soon()).value(), "one");
  ASSERT_THAT(b_.Set("key", "two"), IsOk());
  EXPECT_EQ(a_.Get("key", Soon()).value(), "two");
}

TEST_P(StoreConformanceTest, ValuesMayBeEmptyOrBinary) {
  const std::string binary("\0\n\xff\0", 4);
  ASSERT_THAT(a_.Set("empty", ""), IsOk());
  ASSERT_THAT(a_.Set(binary, binary), IsOk());
  EXPECT_EQ(b_.Get("empty", Soon()).value(), "");
  EXPECT_EQ(b_.Get(binary, Soon()).value(), binary);
  EXPECT_THAT(b_.List(binary.substr(0, 1)).value(), ElementsAre(binary));
}

TEST_P(StoreConformanceTest, ValuesOfTheLargestSizeArriveWhole) {
  std::string value(StoreLimits::kValueBytes, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 7 + i / 4096);
  ASSERT_THAT(a_.Set("large", value), IsOk());
  EXPECT_TRUE(b_.Get("large", Soon()).value() == value);
}

TEST_P(StoreConformanceTest, WaitersWakeWhenAnotherRankSetsTheKeys) {
  absl::StatusOr<std::string> got;
  absl::StatusOr<std::vector<std::string>> got_all;
  absl::Status waited = absl::UnknownError("not run");
  {
    Thread get("get", [&] { got = a_.Get("x", Soon()); });
    Thread multi_get("multi-get", [&] { got_all = a_.MultiGet({"y", "x", "y"}, Soon()); });
    Thread wait("wait", [&] { waited = b_.Wait({"x", "y", "z"}, Soon()); });
    EXPECT_THAT(b_.Set("z", "3"), IsOk());
    EXPECT_THAT(b_.Set("x", "1"), IsOk());
    EXPECT_THAT(a_.Set("y", "2"), IsOk());
  }
  EXPECT_EQ(got.value(), "1");
  EXPECT_THAT(got_all.value(), ElementsAre("2", "1", "2"));
  EXPECT_THAT(waited, IsOk());
}

TEST_P(StoreConformanceTest, EveryVerbThatMakesAKeyWakesItsWaiters) {
  const std::vector<std::string> keys = {"added", "appended", "compare-set", "multi-set"};
  std::vector<absl::Status> waited(keys.size(), absl::UnknownError("not run"));
  {
    std::vector<Thread> threads;
    for (size_t i = 0; i < keys.size(); ++i) {
      threads.emplace_back("wait", [&, i] { waited[i] = a_.Wait({keys[i]}, Soon()); });
    }
    EXPECT_EQ(b_.Add("added", 1).value(), 1);
    EXPECT_THAT(b_.Append("appended", "x"), IsOk());
    EXPECT_EQ(b_.CompareSet("compare-set", std::nullopt, "x").value(), "x");
    EXPECT_THAT(b_.MultiSet({"other", "multi-set"}, {"x", "y"}), IsOk());
  }
  EXPECT_THAT(waited, testing::Each(IsOk()));
}

TEST_P(StoreConformanceTest, DeadlinesNameTheMissingKeysAndTheStore) {
  ASSERT_THAT(a_.Set("present", "x"), IsOk());
  const auto expected = [&](const std::string& count, const std::string& keys) {
    return Fails(kDeadlineExceeded, name_, count, keys);
  };
  EXPECT_THAT(a_.Get("absent", Brief()).status(), expected("1 of 1 keys missing", "absent\""));
  EXPECT_THAT(a_.Wait({"p", "present", "q"}, Brief()), expected("2 of 3 keys missing", "q\""));
  EXPECT_THAT(a_.MultiGet({"present", "p"}, Brief()).status(), expected("1 of 2 keys missing", "p\""));
  EXPECT_EQ(a_.Get("present", Soon()).value(), "x") << "usable after a deadline";
}

TEST_P(StoreConformanceTest, ADeadlineThatHasPassedStillFindsWhatIsThere) {
  ASSERT_THAT(a_.Set("key", "x"), IsOk());
  EXPECT_EQ(b_.Get("key", absl::InfinitePast()).value(), "x");
  EXPECT_THAT(b_.Get("absent", absl::InfinitePast()).status(), Fails(kDeadlineExceeded, "absent"));
}

TEST_P(StoreConformanceTest, AnUnboundedWaitEndsWithTheKey) {
  absl::StatusOr<std::string> got;
  {
    Thread get("get", [&] { got = a_.Get("key", absl::InfiniteFuture()); });
    EXPECT_THAT(b_.Set("key", "x"), IsOk());
  }
  EXPECT_EQ(got.value(), "x");
}

TEST_P(StoreConformanceTest, AddsFromManyThreadsSumUp) {
  constexpr int kThreads = 8, kAdds = 25;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("add", [&, t] {
        for (int i = 0; i < kAdds; ++i) EXPECT_THAT((t % 2 ? a_ : b_).Add("sum", t), IsOk());
      });
    }
  }
  EXPECT_EQ(a_.Add("sum", 0).value(), kAdds * kThreads * (kThreads - 1) / 2);
  EXPECT_EQ(b_.Get("sum", Soon()).value(), absl::StrCat(kAdds * kThreads * (kThreads - 1) / 2));
}

TEST_P(StoreConformanceTest, AddCountsFromTextAndBelowZero) {
  ASSERT_THAT(a_.Set("n", "-41"), IsOk());
  EXPECT_EQ(a_.Add("n", 42).value(), 1);
  EXPECT_EQ(b_.Add("n", -3).value(), -2);
}

TEST_P(StoreConformanceTest, AddRefusesWhatIsNoNumberAndLeavesIt) {
  for (const std::string value : {"", "-", "+1", " 1", "1 ", "0x1", "1.0", "99999999999999999999", "one"}) {
    ASSERT_THAT(a_.Set("n", value), IsOk());
    EXPECT_THAT(b_.Add("n", 1).status(), Fails(kInvalidArgument, "n\" holds \"" + value + "\"")) << value;
    EXPECT_EQ(a_.Get("n", Soon()).value(), value);
  }
}

TEST_P(StoreConformanceTest, AddRefusesSumsOutside64Bits) {
  ASSERT_THAT(a_.Set("max", "9223372036854775807"), IsOk());
  ASSERT_THAT(a_.Set("min", "-9223372036854775808"), IsOk());
  EXPECT_THAT(b_.Add("max", 1).status(), Fails(kInvalidArgument, "9223372036854775807 + 1 leaves 64 bits"));
  EXPECT_THAT(b_.Add("min", -1).status(), Fails(kInvalidArgument, "-9223372036854775808 + -1 leaves 64 bits"));
  EXPECT_EQ(b_.Add("max", 0).value(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(b_.Add("min", 0).value(), std::numeric_limits<int64_t>::min());
}

TEST_P(StoreConformanceTest, CompareSetSetsOnlyWhatWasExpected) {
  EXPECT_EQ(a_.CompareSet("key", "old", "new").value(), std::nullopt) << "expected a value, but there is none";
  EXPECT_FALSE(a_.Check({"key"}).value());
  EXPECT_EQ(a_.CompareSet("key", std::nullopt, "first").value(), "first") << "expected none";
  EXPECT_EQ(b_.CompareSet("key", std::nullopt, "second").value(), "first") << "expected none, but there is one";
  EXPECT_EQ(b_.CompareSet("key", "wrong", "second").value(), "first") << "expected another";
  EXPECT_EQ(b_.CompareSet("key", "first", "second").value(), "second") << "expected right";
  EXPECT_EQ(b_.CompareSet("key", "", "third").value(), "second") << "an empty value is not no value";
  EXPECT_EQ(a_.Get("key", Soon()).value(), "second");
}

TEST_P(StoreConformanceTest, OneOfManyCompareSetsWins) {
  constexpr int kThreads = 8;
  std::vector<std::string> seen(kThreads);
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("compare-set", [&, t] {
        seen[t] = (t % 2 ? a_ : b_).CompareSet("leader", std::nullopt, absl::StrCat(t)).value().value();
      });
    }
  }
  EXPECT_THAT(seen, testing::Each(a_.Get("leader", Soon()).value()));
}

TEST_P(StoreConformanceTest, CheckIsTrueOnlyIfAllKeysExist) {
  ASSERT_THAT(a_.MultiSet({"x", "y"}, {"1", "2"}), IsOk());
  EXPECT_TRUE(b_.Check({"x"}).value());
  EXPECT_TRUE(b_.Check({"x", "y", "x"}).value());
  EXPECT_FALSE(b_.Check({"x", "z"}).value());
  EXPECT_TRUE(b_.Check({}).value());
}

TEST_P(StoreConformanceTest, DeleteSaysWhetherTheKeyExistedAndGetWaitsAgain) {
  ASSERT_THAT(a_.Set("key", "x"), IsOk());
  EXPECT_TRUE(b_.Delete("key").value());
  EXPECT_FALSE(a_.Delete("key").value());
  EXPECT_THAT(a_.Get("key", Brief()).status(), Fails(kDeadlineExceeded, "key"));
}

TEST_P(StoreConformanceTest, AppendExtendsOrMakesTheValue) {
  EXPECT_THAT(a_.Append("key", "ab"), IsOk());
  EXPECT_THAT(b_.Append("key", std::string("\0c", 2)), IsOk());
  EXPECT_EQ(a_.Get("key", Soon()).value(), std::string("ab\0c", 4));
}

TEST_P(StoreConformanceTest, AppendKeepsToTheLimitOfAValue) {
  ASSERT_THAT(a_.Set("key", std::string(StoreLimits::kValueBytes - 1, 'x')), IsOk());
  EXPECT_THAT(b_.Append("key", "yz"), Fails(kInvalidArgument, "16777217 bytes", "16777216 bytes"));
  EXPECT_THAT(b_.Append("key", "y"), IsOk());
}

TEST_P(StoreConformanceTest, ListIsSortedAndOfItsPrefixOnly) {
  ASSERT_THAT(a_.MultiSet({"b/2", "b/10", "b", "a", "c", "b/"}, {"", "", "", "", "", ""}), IsOk());
  EXPECT_THAT(b_.List("b/").value(), ElementsAre("b/", "b/10", "b/2"));
  EXPECT_THAT(b_.List("").value(), ElementsAre("a", "b", "b/", "b/10", "b/2", "c"));
  EXPECT_THAT(b_.List("d").value(), IsEmpty());
}

TEST_P(StoreConformanceTest, NoKeysAreAlwaysThere) {
  EXPECT_THAT(a_.Wait({}, absl::InfinitePast()), IsOk());
  EXPECT_THAT(a_.MultiGet({}, absl::InfinitePast()).value(), IsEmpty());
  EXPECT_THAT(a_.MultiSet({}, {}), IsOk());
}

TEST_P(StoreConformanceTest, LimitsAreNamedWithTheSizeThatBrokeThem) {
  const std::string long_key(StoreLimits::kKeyBytes + 1, 'k');
  const auto key_error = Fails(kInvalidArgument, name_, "bytes, more than the limit of 4096 bytes");
  EXPECT_THAT(a_.Set(long_key, ""), key_error);
  EXPECT_THAT(a_.Get(long_key, Soon()).status(), key_error);
  EXPECT_THAT(a_.List(long_key).status(), key_error);
  EXPECT_THAT(a_.Set(long_key.substr(100), "fits"), IsOk());

  EXPECT_THAT(a_.Set("key", std::string(StoreLimits::kValueBytes + 1, 'v')),
              Fails(kInvalidArgument, "key", "16777217 bytes, more than the limit of 16777216 bytes"));
  EXPECT_THAT(a_.Check(std::vector<std::string>(StoreLimits::kKeysPerCall + 1, "k")).status(),
              Fails(kInvalidArgument, "65537 keys, more than the limit of 65536 keys"));
  EXPECT_FALSE(a_.Check(std::vector<std::string>(StoreLimits::kKeysPerCall, "k")).value());

  const std::vector<std::string> values(5, std::string(StoreLimits::kValueBytes, 'v'));
  EXPECT_THAT(a_.MultiSet({"a", "b", "c", "d", "e"}, values),
              Fails(kInvalidArgument, "more than the limit of 67108864 bytes"));
  EXPECT_FALSE(b_.Check({"a"}).value()) << "nothing of a refused call is done";
}

TEST_P(StoreConformanceTest, MultiSetNeedsAValueForEachKey) {
  EXPECT_THAT(a_.MultiSet({"x", "y"}, {"1"}), Fails(kInvalidArgument, "2 keys and 1 values"));
  EXPECT_FALSE(b_.Check({"x"}).value());
}

TEST_P(StoreConformanceTest, BarrierReleasesAllWhenTheLastHasCome) {
  constexpr int kRanks = 6;
  std::vector<absl::Status> statuses(kRanks, absl::UnknownError("not run"));
  {
    std::vector<Thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back("barrier", [&, rank] {
        // Each sees what the others did before they came.
        EXPECT_THAT((rank % 2 ? a_ : b_).Set(absl::StrCat("before/", rank), ""), IsOk());
        statuses[rank] = StoreBarrier(rank % 2 ? a_ : b_, "barrier", kRanks, Soon());
        EXPECT_EQ((rank % 2 ? a_ : b_).List("before/").value().size(), size_t{kRanks});
      });
    }
  }
  EXPECT_THAT(statuses, testing::Each(IsOk()));
}

TEST_P(StoreConformanceTest, BarrierSaysHowManyCameBeforeTheDeadline) {
  absl::Status other;
  Thread thread("barrier", [&] { other = StoreBarrier(a_, "start", 3, Brief()); });
  thread.Join();
  EXPECT_THAT(other, Fails(kDeadlineExceeded, "barrier \"start\"", "only 1 of 3 ranks came"));
  EXPECT_THAT(StoreBarrier(b_, "start", 3, Brief()), Fails(kDeadlineExceeded, "only 2 of 3 ranks came"));
}

TEST_P(StoreConformanceTest, BarrierServesOnce) {
  ASSERT_THAT(StoreBarrier(a_, "once", 1, Soon()), IsOk());
  EXPECT_THAT(StoreBarrier(b_, "once", 1, Soon()),
              Fails(kFailedPrecondition, "2 callers for a world size of 1", "a name serves once"));
}

}  // namespace
}  // namespace tutti
