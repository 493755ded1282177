#include "src/transport/shm/shm_transport.h"

#include "gtest/gtest.h"
#include "tests/transport/shm_group.h"
#include "tests/transport/transport_conformance.h"

namespace tutti {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Shm, TransportConformance,
    ::testing::Values(TransportUnderTest{"OneHost", [](int size) { return MakeShmGroup(size).endpoints; }},
                      TransportUnderTest{"TwoRanksPerHost", [](int size) { return MakeShmGroup(size, 2).endpoints; },
                                         40 << 20}),
    TransportName);

}  // namespace
}  // namespace tutti
