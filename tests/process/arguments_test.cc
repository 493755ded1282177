#include "tools/tutti_run/arguments.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Arguments> Parse(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit("tutti-run " + line, ' ');
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return ParseArguments(static_cast<int>(argv.size()), argv.data());
}

TEST(ArgumentsTest, NeedOnlyACountAndAProgram) {
  const auto arguments = Parse("-n 4 ./train");
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->local_ranks, 4);
  EXPECT_EQ(arguments->nodes, 1);
  EXPECT_EQ(arguments->node_rank, 0);
  EXPECT_EQ(arguments->master_host, "127.0.0.1");
  EXPECT_EQ(arguments->master_port, 0);
  EXPECT_EQ(arguments->grace, absl::Seconds(5));
  EXPECT_EQ(arguments->job_id.size(), 32u);
  EXPECT_THAT(arguments->program, ElementsAre("./train"));
}

TEST(ArgumentsTest, LeaveTheProgramItsOwnOptions) {
  for (const std::string line :
       {"-n 2 a -n 3 --grace -- -h", "-n 2 -- a -n 3 --grace -- -h", "-n2 a -n 3 --grace -- -h"}) {
    const auto arguments = Parse(line);
    ASSERT_TRUE(arguments.ok()) << line << ": " << arguments.status();
    EXPECT_EQ(arguments->local_ranks, 2) << line;
    EXPECT_THAT(arguments->program, ElementsAre("a", "-n", "3", "--grace", "--", "-h")) << line;
  }
}

TEST(ArgumentsTest, DescribeAJobOnSeveralNodes) {
  const auto arguments =
      Parse("-n 8 --nnodes 3 --node-rank 2 --master-addr head --master-port 29500 --grace 0.25 train");
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->nodes, 3);
  EXPECT_EQ(arguments->node_rank, 2);
  EXPECT_EQ(arguments->master_host, "head");
  EXPECT_EQ(arguments->master_port, 29500);
  EXPECT_EQ(arguments->grace, absl::Milliseconds(250));
  EXPECT_EQ(arguments->job_id, "head:29500");
}

TEST(ArgumentsTest, GiveEachJobAnIdOfItsOwn) {
  const auto one = Parse("-n 1 a"), other = Parse("-n 1 a"), named = Parse("-n 1 --job-id mine a");
  ASSERT_TRUE(one.ok() && other.ok() && named.ok());
  EXPECT_NE(one->job_id, other->job_id);
  EXPECT_EQ(named->job_id, "mine");
}

TEST(ArgumentsTest, AnswerQuestions) {
  EXPECT_THAT(Parse("--help")->answer, AllOf(HasSubstr("Usage: tutti-run -n N"), HasSubstr("--master-addr")));
  EXPECT_THAT(Parse("--version")->answer, HasSubstr("tutti-run "));
}

struct Refusal {
  const char* line;
  std::vector<std::string> said;
};

class RefusedArgumentsTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedArgumentsTest, NameTheOptionAndTheRule) {
  const auto arguments = Parse(GetParam().line);
  ASSERT_EQ(arguments.status().code(), absl::StatusCode::kInvalidArgument) << GetParam().line;
  for (const std::string& text : GetParam().said) {
    EXPECT_THAT(std::string(arguments.status().message()), HasSubstr(text)) << GetParam().line;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedArgumentsTest,
    testing::Values(Refusal{"train", {"-n", "required"}}, Refusal{"-n 0 a", {"-n \"0\"", "1 to 1024"}},
                    Refusal{"-n abc a", {"-n \"abc\"", "1 to 1024"}}, Refusal{"-n -1 a", {"-n \"-1\""}},
                    Refusal{"-n +2 a", {"-n \"+2\""}}, Refusal{"-n 0x2 a", {"-n \"0x2\""}},
                    Refusal{"-n 1025 a", {"-n \"1025\""}}, Refusal{"-n 99999999999999999999 a", {"-n \"9999"}},
                    Refusal{"-n 2.5 a", {"-n \"2.5\""}}, Refusal{"-n", {"-n"}}, Refusal{"-n 2", {"no program"}},
                    Refusal{"-n 2 --", {"no program"}}, Refusal{"-n 2 --ranks 3 a", {"unknown option \"--ranks\""}},
                    Refusal{"-n 2 -n 3 a", {"-n"}}, Refusal{"-n 2 --nnodes 0 a", {"--nnodes \"0\""}},
                    Refusal{"-n 2 --nnodes 2 a", {"--node-rank is missing"}},
                    Refusal{"-n 2 --nnodes 2 --node-rank 0 a", {"--master-addr is missing"}},
                    Refusal{"-n 2 --nnodes 2 --node-rank 0 --master-addr h a", {"--master-port is missing"}},
                    Refusal{"-n 2 --nnodes 2 --node-rank 2 --master-addr h --master-port 1 a",
                            {"--node-rank \"2\"", "0 to 1"}},
                    Refusal{"-n 2 --node-rank 1 a", {"--node-rank \"1\"", "0 to 0"}},
                    Refusal{"-n 2 --nnodes 2 --node-rank 0 --master-addr h --master-port 0 a",
                            {"--master-port \"0\"", "1 to 65535"}},
                    Refusal{"-n 2 --master-port 65536 a", {"--master-port \"65536\"", "0 to 65535"}},
                    Refusal{"-n 2 --master-port 4294996796 a", {"--master-port"}},
                    Refusal{"-n 2 --grace -1 a", {"--grace"}}, Refusal{"-n 2 --grace nan a", {"--grace \"nan\""}},
                    Refusal{"-n 2 --grace soon a", {"--grace \"soon\"", "seconds"}}));

}  // namespace
}  // namespace tutti::launch
