#include "src/rendezvous/network.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SocketAddress Address(const std::string& host) {
  const bool v6 = host.find(':') != host.npos;
  absl::StatusOr<SocketAddress> address = SocketAddress::Parse(v6 ? "[" + host + "]:0" : host + ":0");
  EXPECT_TRUE(address.ok()) << address.status();
  return *address;
}

// A host with many cards; the master is 10.8.0.1, by way of eth1.
std::vector<Interface> ManyCards() {
  return {{"lo", true, true, Address("127.0.0.1"), 8},
          {"docker0", true, false, Address("172.17.0.1"), 16},
          {"eth0", true, false, Address("192.168.5.2"), 24},
          {"eth1", true, false, Address("10.8.0.2"), 24},
          {"eth1", true, false, Address("fe80::2"), 64},
          {"eth1", true, false, Address("fd00::2"), 64},
          {"eth10", true, false, Address("10.9.0.2"), 24},
          {"eth2", false, false, Address("10.7.0.2"), 24},
          {"lo", true, true, Address("::1"), 128}};
}

absl::StatusOr<InterfaceChoice> Choose(const std::string& specification, const std::string& master = "10.8.0.1",
                                       const std::string& source = "10.8.0.2") {
  return ChooseInterface(specification, ManyCards(), Address(master), Address(source));
}

std::string HostOf(const absl::StatusOr<InterfaceChoice>& choice) {
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? choice->address.Host() : "";
}

TEST(ChooseInterface, TakesTheOneThatRoutesToTheMaster) {
  for (const char* nothing : {"", " ", ",", " , "}) {
    EXPECT_EQ(HostOf(Choose(nothing)), "10.8.0.2");
    EXPECT_EQ(Choose(nothing)->reason, "eth1: routes to the master 10.8.0.1");
  }
  EXPECT_EQ(HostOf(Choose("", "127.0.0.1", "127.0.0.1")), "127.0.0.1");
}

TEST(ChooseInterface, SaysWhenThereIsNoMaster) {
  const absl::StatusOr<InterfaceChoice> choice = ChooseInterface("", ManyCards(), SocketAddress(), Address("10.8.0.2"));
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->reason, "eth1: the default route");
}

TEST(ChooseInterface, FollowsTheSpecification) {
  const std::pair<const char*, const char*> kChoices[] = {
      {"eth0", "192.168.5.2"},
      {"eth1", "10.8.0.2"},           // exact, so not eth10
      {"eth", "10.8.0.2"},            // a prefix: by route
      {"eth10,eth0", "192.168.5.2"},  // the first there is
      {"eth0,eth1", "10.8.0.2"},
      {"eth1 ", "10.8.0.2"},  // blanks mean nothing
      {" nope0 , eth0", "192.168.5.2"},
      {"^eth1", "192.168.5.2"},  // excluding lets in neither lo nor docker0
      {"^docker0", "10.8.0.2"},
      {"^eth0,eth1", "10.9.0.2"},
      {"10.9.0.0/16", "10.9.0.2"},
      {"10.8.0.2", "10.8.0.2"},
      {"192.168.5.2,10.9.0.0/24", "192.168.5.2"},
      {"docker0", "172.17.0.1"},
      {"172.17.0.1", "172.17.0.1"},
      {"lo", "127.0.0.1"},
      {"127.0.0.0/8", "127.0.0.1"},
      {"0.0.0.0/0", "10.8.0.2"},
      {"^10.0.0.0/8", "192.168.5.2"}};
  for (const auto& [specification, host] : kChoices) {
    EXPECT_EQ(HostOf(Choose(specification)), host) << specification;
  }
}

TEST(ChooseInterface, KeepsToTheFamilyOfTheMaster) {
  EXPECT_EQ(HostOf(Choose("eth1", "fd00::1", "fd00::2")), "fd00::2");
  EXPECT_EQ(HostOf(Choose("eth1", "fd99::1", "fd98::2")), "fd00::2") << "not the link-local one";
  EXPECT_EQ(HostOf(Choose("eth1", "fe80::1", "fe80::2")), "fe80::2");
  EXPECT_FALSE(Choose("eth0", "fd00::1", "fd00::2").ok());
}

TEST(ChooseInterface, ListsWhatThereIsWhenNothingFits) {
  for (const char* specification : {"nope0", "eth2", "10.99.0.0/16", "^eth", "dock", "172.16.0.0/12"}) {
    const absl::StatusOr<InterfaceChoice> choice = Choose(specification);
    ASSERT_FALSE(choice.ok()) << specification << " gave " << choice->reason;
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(choice.status().message()),
                AllOf(HasSubstr(std::string("\"") + specification + "\""), HasSubstr("lo 127.0.0.1/8 (up, loopback)"),
                      HasSubstr("eth2 10.7.0.2/24 (down)")));
  }
}

TEST(ChooseInterface, RefusesNetworksThatAreNone) {
  for (const char* specification : {"10.8.0.0/33", "10.8.0.0/", "10.8.0.0/x", "fd00::/129", "eth0/24"}) {
    EXPECT_THAT(std::string(Choose(specification).status().message()), HasSubstr("is no network")) << specification;
  }
}

TEST(ListInterfaces, FindsTheLoopback) {
  const absl::StatusOr<std::vector<Interface>> interfaces = ListInterfaces();
  ASSERT_TRUE(interfaces.ok()) << interfaces.status();
  bool found = false;
  for (const Interface& interface : *interfaces) {
    if (interface.address.Host() != "127.0.0.1") continue;
    found = true;
    EXPECT_TRUE(interface.loopback);
    EXPECT_TRUE(interface.up);
    EXPECT_EQ(interface.prefix_bits, 8);
    EXPECT_EQ(interface.address.port(), 0);
  }
  EXPECT_TRUE(found);
}

TEST(RouteSource, OfALoopbackAddressIsOne) {
  const absl::StatusOr<SocketAddress> source = RouteSource(Address("127.0.0.1"));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->IsLoopback());
  EXPECT_EQ(source->port(), 0);
}

}  // namespace
}  // namespace tutti
