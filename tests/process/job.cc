#include "tests/process/job.h"

#include <dirent.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

int SharedMemoryFiles() {
  int count = 0;
  if (DIR* directory = opendir("/dev/shm")) {
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
  }
  return count;
}

}  // namespace

void PrintTo(const RankLine& line, std::ostream* out) {
  *out << "rank " << line.rank << ": " << line.code << " after " << line.seconds << " s: " << line.message;
}

std::vector<RankLine> RankLines(const std::string& out) {
  std::vector<RankLine> lines;
  for (const std::string& line : SortedLines(out)) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 6));
    if (words.size() < 7 || words[1] != "status") continue;
    RankLine parsed{.rank = -1, .code = words[2], .seconds = -1, .message = words[6]};
    EXPECT_TRUE(absl::SimpleAtoi(words[0].substr(1, words[0].size() - 2), &parsed.rank)) << line;
    EXPECT_TRUE(absl::SimpleAtod(words[4], &parsed.seconds)) << line;
    lines.push_back(parsed);
  }
  return lines;
}

Launcher::End Job::Run(int ranks, const std::string& scenario, const std::vector<std::string>& set,
                       int ranks_per_host) {
  const int files = SharedMemoryFiles();
  std::vector<std::string> arguments = {"-n", absl::StrCat(ranks), "--grace", "1"};
  if (ranks_per_host > 0) {
    arguments.insert(arguments.end(), {"sh", "-c",
                                       absl::StrCat("TUTTI_HOST_ID=host$((RANK / ", ranks_per_host,
                                                    ")) exec " RANK_PROGRAM " ", scenario)});
  } else {
    arguments.insert(arguments.end(), {RANK_PROGRAM, scenario});
  }
  Launcher launcher(arguments, {.set = set});
  Launcher::End end = launcher.Wait();
  launcher.WaitForAll();
  EXPECT_THAT(launcher.Processes(), testing::IsEmpty());
  EXPECT_EQ(SharedMemoryFiles(), files);
  return end;
}

void Job::ExpectOneVerdict(const std::vector<RankLine>& lines) {
  for (const RankLine& line : lines) {
    EXPECT_EQ(line.code, lines[0].code);
    EXPECT_EQ(line.message, lines[0].message);
  }
}

}  // namespace tutti
