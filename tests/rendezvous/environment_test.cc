#include "src/rendezvous/environment.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;

Variables Complete() {
  return {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node-0"}, {"MASTER_PORT", "29500"}};
}

Variables With(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables Without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

absl::StatusOr<Settings> Resolve(const Variables& variables, const ProcessGroupOptions& options = {}) {
  return ResolveSettings(options, Environment(variables));
}

std::string ErrorOf(const Variables& variables, const ProcessGroupOptions& options = {}) {
  const absl::StatusOr<Settings> settings = Resolve(variables, options);
  EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(settings.status().message());
}

TEST(Environment, OfTheProcessHasItsVariables) {
  EXPECT_TRUE(Environment::OfProcess().Get("PATH").has_value());
  EXPECT_FALSE(Environment::OfProcess().Get("TUTTI_NO_SUCH_VARIABLE").has_value());
}

TEST(Settings, AreReadFromTheStandardVariables) {
  const absl::StatusOr<Settings> settings = Resolve(Complete());
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->rank, 1);
  EXPECT_EQ(settings->world_size, 4);
  EXPECT_EQ(settings->scheme, Scheme::kTcp);
  EXPECT_EQ(settings->master_host, "node-0");
  EXPECT_EQ(settings->master_port, 29500);
  EXPECT_EQ(settings->timeout, absl::Minutes(5));
  EXPECT_EQ(settings->job_id, "default");
  EXPECT_EQ(settings->store_fd, -1);
  EXPECT_THAT(settings->origins, Contains("rank = 1 (from RANK)"));
}

// What MASTER_PORT may hold; -1: an error.
struct PortCase {
  const char* text;
  int port;
};

class MasterPort : public testing::TestWithParam<PortCase> {};

TEST_P(MasterPort, IsDecimalDigitsOnlyAndNamedWhenWrong) {
  const auto [text, port] = GetParam();
  const absl::StatusOr<Settings> settings = Resolve(With(Complete(), "MASTER_PORT", text));
  ProcessGroupOptions url;
  url.init_method = absl::StrCat("tcp://node-0:", text, "?rank=1&world_size=4");
  const absl::StatusOr<Settings> by_url = Resolve({}, url);
  if (port >= 0) {
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->master_port, port);
    ASSERT_TRUE(by_url.ok()) << by_url.status();
    EXPECT_EQ(by_url->master_port, port);
    return;
  }
  ASSERT_FALSE(settings.ok());
  EXPECT_THAT(std::string(settings.status().message()),
              AllOf(HasSubstr("MASTER_PORT=\""), HasSubstr("(environment)"), HasSubstr("a port, 1 to 65535")));
  ASSERT_FALSE(by_url.ok());
  EXPECT_THAT(std::string(by_url.status().message()),
              AllOf(HasSubstr("port=\""), HasSubstr("(URL \"tcp://node-0:"), HasSubstr("a port, 1 to 65535")));
}

INSTANTIATE_TEST_SUITE_P(Texts, MasterPort,
                         testing::Values(PortCase{"", -1}, PortCase{"FREEPORT", -1}, PortCase{"29500 ", -1},
                                         PortCase{" 29500", -1}, PortCase{"29500\n", -1}, PortCase{"0x734c", -1},
                                         PortCase{"029500", 29500}, PortCase{"+29500", -1}, PortCase{"-1", -1},
                                         PortCase{"0", -1}, PortCase{"1", 1}, PortCase{"65535", 65535},
                                         PortCase{"65536", -1}, PortCase{"4294996796", -1},
                                         PortCase{"99999999999999999999", -1}, PortCase{"29500.0", -1},
                                         PortCase{"2_9500", -1}));

TEST(MasterPort, MayBeZeroOnlyWhereNobodyElseNeedsIt) {
  Variables variables = With(Complete(), "MASTER_PORT", "0");
  EXPECT_FALSE(Resolve(variables).ok());
  EXPECT_FALSE(Resolve(With(variables, "TUTTI_STORE_FD", "5")).ok()) << "rank 1 cannot know the port";
  variables["RANK"] = "0";
  EXPECT_FALSE(Resolve(variables).ok());
  const absl::StatusOr<Settings> with_socket = Resolve(With(variables, "TUTTI_STORE_FD", "5"));
  ASSERT_TRUE(with_socket.ok()) << with_socket.status();
  EXPECT_EQ(with_socket->store_fd, 5);
  EXPECT_TRUE(Resolve(With(variables, "WORLD_SIZE", "1")).ok());
}

TEST(Settings, RefuseRanksAndSizesThatAreNoNumbers) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "TUTTI_STORE_FD"}) {
    for (const char* text : {"", "one", "1 ", "-1", "2 of 4", "1e1", "0x1", "+1", "1.0", "99999999999999999999"}) {
      EXPECT_THAT(ErrorOf(With(Complete(), name, text)),
                  HasSubstr(absl::StrCat(name, "=\"", text, "\" (environment)")));
    }
  }
  EXPECT_THAT(ErrorOf(With(Complete(), "WORLD_SIZE", "0")), HasSubstr("WORLD_SIZE=\"0\""));
  EXPECT_EQ(Resolve(With(Complete(), "RANK", "01"))->rank, 1);
  EXPECT_EQ(Resolve(With(Complete(), "RANK", "010")).ok(), false) << "ten, not eight";
}

TEST(Settings, RefuseARankOutsideTheWorld) {
  EXPECT_THAT(ErrorOf(With(Complete(), "RANK", "4")),
              AllOf(HasSubstr("RANK=\"4\""), HasSubstr("WORLD_SIZE=\"4\""), HasSubstr("0 <= rank < world_size")));
  ProcessGroupOptions options;
  options.rank = -7;
  EXPECT_THAT(ErrorOf(Complete(), options), HasSubstr("rank=\"-7\" (option)"));
}

TEST(Settings, RefuseHostsThatAreNone) {
  for (const char* text : {"", "   ", "http://host", "tcp://host", "host:29500", "256.1.1.1", "1.2.3", "0x7f.1",
                           "2130706433", "[::1", "[::1]:29500", "[host]", "a b", "host\n", "<master>", "1.2.3.4:5"}) {
    EXPECT_THAT(ErrorOf(With(Complete(), "MASTER_ADDR", text)), HasSubstr("MASTER_ADDR=\"")) << text;
  }
}

TEST(Settings, TakeNamesAndAddressesForTheHost) {
  const std::pair<const char*, const char*> kHosts[] = {
      {"host", "host"},         {"host.example.org", "host.example.org"},
      {"10.0.0.1", "10.0.0.1"}, {"[::1]", "::1"},
      {"::1", "::1"},           {"fe80::1%eth0", "fe80::1%eth0"},
      {"node_7", "node_7"},     {"::ffff:127.0.0.1", "::ffff:127.0.0.1"}};
  for (const auto& [text, host] : kHosts) {
    const absl::StatusOr<Settings> settings = Resolve(With(Complete(), "MASTER_ADDR", text));
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->master_host, host);
  }
}

TEST(Settings, EscapeWhatTheyQuote) {
  EXPECT_THAT(ErrorOf(With(Complete(), "MASTER_PORT", "29500\n\x1b[31m")), HasSubstr("\"29500\\n\\x1b[31m\""));
  const std::string error = ErrorOf(With(Complete(), "MASTER_PORT", std::string(100000, 'x')));
  EXPECT_LT(error.size(), 1000u);
  EXPECT_THAT(error, HasSubstr("100000 bytes"));
}

TEST(Settings, ListAllProblemsOneALine) {
  const std::string error = ErrorOf({{"RANK", "one"},
                                     {"WORLD_SIZE", "four"},
                                     {"LOCAL_RANK", "x"},
                                     {"MASTER_ADDR", "http://host"},
                                     {"MASTER_PORT", "-1"},
                                     {"TUTTI_TIMEOUT", "soon"},
                                     {"TUTTI_PORT_RANGE", "5-4"},
                                     {"TUTTI_JOB_ID", "my job"},
                                     {"TUTTI_LOG", "loud"},
                                     {"TUTTI_STORE_FD", "-3"}});
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TUTTI_TIMEOUT",
                           "TUTTI_PORT_RANGE", "TUTTI_JOB_ID", "TUTTI_LOG", "TUTTI_STORE_FD"}) {
    EXPECT_THAT(error, HasSubstr(absl::StrCat("\n  ", name, "=\"")));
  }
}

TEST(Settings, SayWhatToSetWhenNothingIs) {
  EXPECT_THAT(ErrorOf({}), AllOf(HasSubstr("RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT"), HasSubstr("tutti-run")));
  EXPECT_THAT(ErrorOf(Without(Complete(), "MASTER_PORT")),
              AllOf(HasSubstr("MASTER_PORT"), Not(HasSubstr("WORLD_SIZE"))));
}

TEST(Settings, NeedNoMasterForOneRank) {
  const absl::StatusOr<Settings> settings = Resolve({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->master_host, "127.0.0.1");
  EXPECT_EQ(settings->master_port, 0);
}

TEST(Settings, OfTheCallerWinOverTheEnvironment) {
  ProcessGroupOptions options;
  options.rank = 2;
  options.world_size = 8;
  options.timeout = absl::Seconds(7);
  options.job_id = "mine";
  options.port_range = "40000-40010";
  options.socket_interface = "eth1";
  Variables variables = With(Complete(), "TUTTI_TIMEOUT", "30");
  variables["TUTTI_JOB_ID"] = "theirs";
  variables["RANK"] = "rubbish that nobody needs";
  const absl::StatusOr<Settings> settings = Resolve(variables, options);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->rank, 2);
  EXPECT_EQ(settings->world_size, 8);
  EXPECT_EQ(settings->timeout, absl::Seconds(7));
  EXPECT_EQ(settings->job_id, "mine");
  EXPECT_EQ(settings->ports.first, 40000);
  EXPECT_EQ(settings->ports.last, 40010);
  EXPECT_EQ(settings->socket_interface, "eth1");
}

TEST(Settings, ThatDisagreeAreAnError) {
  EXPECT_THAT(ErrorOf(With(Complete(), "OMPI_COMM_WORLD_RANK", "2")),
              AllOf(HasSubstr("RANK=\"1\""), HasSubstr("OMPI_COMM_WORLD_RANK=\"2\""), HasSubstr("disagree")));
  EXPECT_TRUE(Resolve(With(Complete(), "OMPI_COMM_WORLD_RANK", "1")).ok());
  ProcessGroupOptions options;
  options.init_method = "tcp://host:1?rank=2&world_size=4";
  options.rank = 3;
  EXPECT_THAT(ErrorOf({}, options), AllOf(HasSubstr("(option)"), HasSubstr("(URL"), HasSubstr("disagree")));
}

TEST(Settings, OfAnInnerLauncherWinOverTheOuterOne) {
  Variables variables = With(Complete(), "OMPI_COMM_WORLD_RANK", "0");
  variables["TORCHELASTIC_RUN_ID"] = "run-7";
  const absl::StatusOr<Settings> settings = Resolve(variables);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->rank, 1);
  EXPECT_EQ(settings->job_id, "run-7");
  EXPECT_TRUE(Resolve(With(Complete(), "SLURM_PROCID", "0")).ok());
}

TEST(Settings, UnderstandOtherLaunchers) {
  const std::pair<const char*, const char*> kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                            {"PMI_RANK", "PMI_SIZE"},
                                                            {"PMIX_RANK", "WORLD_SIZE"},
                                                            {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const auto& [rank, size] : kLaunchers) {
    const absl::StatusOr<Settings> settings =
        Resolve({{rank, "2"}, {size, "3"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}});
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->rank, 2);
    EXPECT_EQ(settings->world_size, 3);
    EXPECT_THAT(settings->origins, Contains(absl::StrCat("rank = 2 (from ", rank, ")")));
  }
}

TEST(Settings, TakeTheFirstHostOfASlurmAllocation) {
  const std::pair<const char*, const char*> kLists[] = {
      {"node7", "node7"}, {"a,b", "a"}, {"node[03-07,9],x", "node03"}, {"gpu[5,7]", "gpu5"}};
  for (const auto& [list, host] : kLists) {
    const absl::StatusOr<Settings> settings =
        Resolve({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", list}, {"MASTER_PORT", "29500"}});
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->master_host, host);
  }
}

TEST(Settings, ReadTimes) {
  const std::pair<const char*, absl::Duration> kTimes[] = {
      {"90", absl::Seconds(90)}, {"090", absl::Seconds(90)},   {"30s", absl::Seconds(30)},
      {"5m", absl::Minutes(5)},  {"1h30m", absl::Minutes(90)}, {"0.5s", absl::Milliseconds(500)}};
  for (const auto& [text, timeout] : kTimes) {
    const absl::StatusOr<Settings> settings = Resolve(With(Complete(), "TUTTI_TIMEOUT", text));
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->timeout, timeout) << text;
  }
  for (const char* text : {"", "0", "0s", "-5", "-5s", "+5s", " 5", "5 s", "5 ", "inf", "5 minutes", "99999999999",
                           "99999999999999999999", "99999999999999999999h"}) {
    EXPECT_THAT(ErrorOf(With(Complete(), "TUTTI_TIMEOUT", text)), HasSubstr("TUTTI_TIMEOUT=\"")) << text;
  }
  for (absl::Duration timeout : {-absl::Seconds(1), absl::InfiniteDuration()}) {
    ProcessGroupOptions options;
    options.timeout = timeout;
    EXPECT_THAT(ErrorOf(Complete(), options), HasSubstr("timeout=\"")) << timeout;
  }
}

TEST(Settings, ReadHowLongStragglersMayTake) {
  EXPECT_EQ(Resolve(Complete())->straggler_warning, absl::Seconds(30));
  EXPECT_EQ(Resolve(With(Complete(), "TUTTI_STRAGGLER_WARNING", "0.2s"))->straggler_warning, absl::Milliseconds(200));
  EXPECT_THAT(ErrorOf(With(Complete(), "TUTTI_STRAGGLER_WARNING", "0")), HasSubstr("TUTTI_STRAGGLER_WARNING=\"0\""));
}

TEST(Settings, ReadASelection) {
  EXPECT_EQ(Resolve(Complete())->selection, "");
  const Variables variables = With(Complete(), "TUTTI_SELECTION", "all-reduce = direct");
  EXPECT_EQ(Resolve(variables)->selection, "all-reduce = direct");
  ProcessGroupOptions options;
  options.selection = "all-reduce = gather";
  EXPECT_EQ(Resolve(variables, options)->selection, "all-reduce = gather");
  for (const std::string& text : {std::string(kSelectionBytesMax + 1, ' '), std::string("all\xc3\xa4reduce")}) {
    EXPECT_THAT(ErrorOf(With(Complete(), "TUTTI_SELECTION", text)),
                AllOf(HasSubstr("TUTTI_SELECTION=\""), HasSubstr("at most 65536 ASCII characters")));
  }
}

TEST(Settings, ReadTheSocketsPerPeer) {
  EXPECT_EQ(Resolve(Complete())->sockets_per_peer, 0);
  EXPECT_EQ(Resolve(With(Complete(), "TUTTI_SOCKETS_PER_PEER", ""))->sockets_per_peer, 0);
  EXPECT_EQ(Resolve(With(Complete(), "TUTTI_SOCKETS_PER_PEER", "16"))->sockets_per_peer, 16);
  for (const char* text : {"0", "17", "-1", "2.0", "two"}) {
    EXPECT_THAT(ErrorOf(With(Complete(), "TUTTI_SOCKETS_PER_PEER", text)),
                AllOf(HasSubstr("TUTTI_SOCKETS_PER_PEER=\""), HasSubstr("1 to 16")))
        << text;
  }
}

TEST(Settings, ReadPortRanges) {
  EXPECT_EQ(Resolve(With(Complete(), "TUTTI_PORT_RANGE", "40000-40000"))->ports.last, 40000);
  for (const char* text : {"", "40000", "0-10", "10-5", "1-65536", "1 - 5", "-5", "5-", "1-2-3", "a-b"}) {
    EXPECT_THAT(ErrorOf(With(Complete(), "TUTTI_PORT_RANGE", text)), HasSubstr("TUTTI_PORT_RANGE=\"")) << text;
  }
}

TEST(Settings, TakeAliasesAfterTheirOwnNames) {
  Variables variables = With(Complete(), "GLOO_SOCKET_IFNAME", "eth2");
  EXPECT_EQ(Resolve(variables)->socket_interface, "eth2");
  variables["NCCL_SOCKET_IFNAME"] = "eth1";
  EXPECT_EQ(Resolve(variables)->socket_interface, "eth1");
  variables["TUTTI_SOCKET_IFNAME"] = "";
  EXPECT_EQ(Resolve(variables)->socket_interface, "eth1") << "an empty text is as good as none";
  variables["TUTTI_SOCKET_IFNAME"] = "eth0";
  EXPECT_EQ(Resolve(variables)->socket_interface, "eth0");
  EXPECT_EQ(Resolve(With(Complete(), "NCCL_HOSTID", "h1"))->host_id, "h1");
}

TEST(Url, MayHoldEverything) {
  ProcessGroupOptions options;
  options.init_method = "tcp://[::1]:29500?rank=1&world_size=2";
  const absl::StatusOr<Settings> settings = Resolve({}, options);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->master_host, "::1");
  EXPECT_EQ(settings->master_port, 29500);
  EXPECT_EQ(settings->rank, 1);
  EXPECT_EQ(settings->world_size, 2);
}

TEST(Url, MayNameAFile) {
  ProcessGroupOptions options;
  options.init_method = "file:///tmp/a/b?rank=0&world_size=2";
  const absl::StatusOr<Settings> settings = Resolve({}, options);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->scheme, Scheme::kFile);
  EXPECT_EQ(settings->file_path, "/tmp/a/b");
}

TEST(Url, IsRefusedWithItsRule) {
  const std::pair<const char*, const char*> kUrls[] = {{"", "must begin with"},
                                                       {"http://host:1", "must begin with"},
                                                       {"host:29500", "must begin with"},
                                                       {"env://host", "takes no address"},
                                                       {"tcp://host", "needs a port"},
                                                       {"tcp://[::1]", "needs a port"},
                                                       {"tcp://::1:29500", "needs brackets"},
                                                       {"tcp://:29500", "must not be empty"},
                                                       {"tcp://host:29500/x", "a port, 1 to 65535"},
                                                       {"tcp://host:1?rnak=1", "\"rnak\" is unknown"},
                                                       {"tcp://host:1?rank=1&rank=2", "given twice"},
                                                       {"tcp://host:1?rank=x", "rank=\"x\""},
                                                       {"tcp://host:1?rank=0&world_size=", "world_size=\"\""},
                                                       {"file://tmp/x", "three slashes"},
                                                       {"file:///", "three slashes"},
                                                       {"file://", "three slashes"}};
  for (const auto& [url, rule] : kUrls) {
    ProcessGroupOptions options;
    options.init_method = url;
    EXPECT_THAT(ErrorOf({}, options), HasSubstr(rule)) << url;
  }
}

}  // namespace
}  // namespace tutti
