// What every transport must do. A transport runs it with
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, ::testing::Values(TransportUnderTest{"", MakeEndpoints}),
//                            TransportName);

#ifndef TUTTI_TESTS_TRANSPORT_TRANSPORT_CONFORMANCE_H_
#define TUTTI_TESTS_TRANSPORT_TRANSPORT_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/transport.h"
#include "tests/transport/test_rank.h"

namespace tutti {

struct TransportUnderTest {
  std::string name;
  // The endpoints of a new group, by rank.
  std::function<std::vector<std::unique_ptr<Endpoint>>(int size)> make;
  // More than the transport takes off a sender before the receiver has said where it goes.
  uint64_t large_bytes = 1 << 20;
};

inline void PrintTo(const TransportUnderTest& transport, std::ostream* out) { *out << transport.name; }

class TransportConformance : public ::testing::TestWithParam<TransportUnderTest> {
 protected:
  void Make(int size) {
    for (auto& endpoint : GetParam().make(size)) ranks_.emplace_back(std::move(endpoint));
  }
  bool PollUntil(const std::function<bool()>& condition) { return tutti::PollUntil(ranks_, condition); }
  // Polls often enough for anything that is under way to show.
  void PollAWhile() {
    for (int i = 0; i < 2000; ++i) {
      for (TestRank& rank : ranks_) rank.Poll();
    }
  }

  std::vector<TestRank> ranks_;
};

inline std::string TransportName(const ::testing::TestParamInfo<TransportUnderTest>& info) { return info.param.name; }

}  // namespace tutti

#endif  // TUTTI_TESTS_TRANSPORT_TRANSPORT_CONFORMANCE_H_
