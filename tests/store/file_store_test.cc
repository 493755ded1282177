// What only a file store does: who may open the file, and what is left of it.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/fd.h"
#include "src/base/thread.h"
#include "src/store/store.h"
#include "src/store/stores.h"
#include "tests/store/store_test_util.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using enum absl::StatusCode;

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

class FileStoreTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> Open(int rank, int world_size = 2, std::string job_id = "test-job") {
    return OpenFileStore(path_, TestIdentity(rank, world_size, std::move(job_id)), Soon());
  }

  // Errors must come at once, not at the deadline.
  template <typename... Texts>
  void ExpectRefusal(absl::StatusCode code, const Texts&... texts) {
    const absl::Time begin = absl::Now();
    EXPECT_THAT(Open(0).status(), Fails(code, "file store " + path_, texts...));
    EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  }

  // Runs `body` in a child process that then kills itself, or waits until it is killed.
  template <typename Body>
  pid_t StartChild(Body body, bool stay) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      body();
      [[maybe_unused]] const ssize_t written = write(ready[1], "x", 1);
      if (stay) pause();
      kill(getpid(), SIGKILL);
    }
    close(ready[1]);
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "the child died too early";
    close(ready[0]);
    if (!stay) waitpid(pid, nullptr, 0);
    return pid;
  }

  // A child that opens the store as this rank, sets "stale", and is killed with the store open.
  void DieAs(int rank, std::string job_id = "test-job") {
    StartChild(
        [&] {
          absl::StatusOr<std::unique_ptr<Store>> store = Open(rank, 2, job_id);
          if (!store.ok() || !(*store)->Set("stale", "x").ok()) _exit(1);
          store->release();
        },
        /*stay=*/false);
  }

  TestDirectory directory_;
  std::string path_ = directory_.File("store");
};

TEST_F(FileStoreTest, TheLastOneOutRemovesTheFile) {
  auto zero = Open(0).value();
  auto one = Open(1).value();
  zero.reset();
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_THAT(one->Set("key", "x"), IsOk());
  one.reset();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, TheLastOneOutLeavesAFileThatIsNotItsOwn) {
  auto store = Open(0).value();
  fs::remove(path_);
  WriteFile(path_, "somebody else's");
  EXPECT_THAT(store->Set("key", "x"), Fails(kUnavailable, path_, "someone has removed the file"));
  store.reset();
  EXPECT_EQ(ReadFile(path_), "somebody else's");
}

TEST_F(FileStoreTest, AnEmptyFileIsTaken) {
  WriteFile(path_, "");
  auto store = Open(0).value();
  EXPECT_THAT(store->Set("key", "x"), IsOk());
}

TEST_F(FileStoreTest, TheFileIsForItsOwnerOnly) {
  auto store = Open(0).value();
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileStoreTest, TheFileOfKilledProcessesIsTakenOver) {
  DieAs(0);
  ASSERT_TRUE(fs::exists(path_));
  auto zero = Open(0).value();
  auto one = Open(1).value();
  EXPECT_FALSE(one->Check({"stale"}).value()) << "a dead job's key";
  EXPECT_THAT(zero->Set("key", "x"), IsOk());
  EXPECT_EQ(one->Get("key", Soon()).value(), "x");
}

TEST_F(FileStoreTest, TheFileOfAnotherDeadJobIsTakenOver) {
  DieAs(0, "another");
  EXPECT_FALSE(Open(1).value()->Check({"stale"}).value());
}

TEST_F(FileStoreTest, AJobWithADeadMemberIsNotJoined) {
  auto zero = Open(0).value();
  DieAs(1);
  EXPECT_THAT(Open(1).status(), Fails(kFailedPrecondition, path_, "rank 1", "is dead", "still there"));
  zero.reset();
  EXPECT_FALSE(fs::exists(path_)) << "the last one alive";
}

TEST_F(FileStoreTest, ARankThatALivingProcessHoldsIsRefused) {
  const pid_t pid = StartChild([&] { Open(0).value().release(); }, /*stay=*/true);
  ExpectRefusal(kAlreadyExists, "rank 0 is already taken by rank 0");
  auto one = Open(1).value();  // the others are not disturbed
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(FileStoreTest, AnotherJobIsRefusedByNameAndTheFirstGoesOn) {
  auto first = Open(0).value();
  EXPECT_THAT(Open(1, 2, "another").status(), Fails(kFailedPrecondition, path_, "\"test-job\"", "\"another\""));
  EXPECT_THAT(Open(1, 3).status(), Fails(kFailedPrecondition, "world size"));
  EXPECT_THAT(first->Set("key", "x"), IsOk());
  // A lock that belonged to the process would have gone with the refused ones.
  EXPECT_THAT(Open(0).status(), Fails(kAlreadyExists, "rank 0 is already taken"));
  EXPECT_EQ(Open(1).value()->Get("key", Soon()).value(), "x");
}

TEST_F(FileStoreTest, GroupsCanFollowEachOtherOnOnePath) {
  constexpr int kGroups = 10;
  const auto run = [&](int rank) {
    for (int i = 0; i < kGroups; ++i) {
      auto store = Open(rank);
      ASSERT_THAT(store, IsOk());
      EXPECT_EQ((*store)->Add("joined by each rank once", 1).value() > 2, false) << "a key of the group before";
      EXPECT_THAT(StoreBarrier(**store, "barrier", 2, Soon()), IsOk());
    }
  };
  Thread other("rank 1", [&] { run(1); });
  run(0);
  other.Join();
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, OpeningAtTheSameTimeMeetsInOneFile) {
  constexpr int kRanks = 8;
  std::vector<absl::Status> statuses(kRanks, absl::UnknownError("not run"));
  {
    std::vector<Thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back("open", [&, rank] {
        auto store = Open(rank, kRanks);
        statuses[rank] = store.ok() ? StoreBarrier(**store, "barrier", kRanks, Soon()) : store.status();
      });
    }
  }
  EXPECT_THAT(statuses, testing::Each(IsOk()));
}

TEST_F(FileStoreTest, ARecordThatWasNotFinishedIsCutOff) {
  auto zero = Open(0).value();
  ASSERT_THAT(zero->Set("key", "x"), IsOk());
  const std::string whole = ReadFile(path_);
  for (const std::string& torn : {std::string("\x10"), std::string("\x10\0\0\0r", 5)}) {
    WriteFile(path_, whole + torn);
    EXPECT_EQ(zero->Get("key", Soon()).value(), "x");
    EXPECT_EQ(ReadFile(path_), whole);
  }
  EXPECT_EQ(zero->Add("key2", 1).value(), 1);
  EXPECT_EQ(Open(1).value()->Get("key2", Soon()).value(), "1");
}

TEST_F(FileStoreTest, AHeaderThatWasNotFinishedIsTaken) {
  auto store = Open(0).value();
  const std::string whole = ReadFile(path_);
  for (size_t size : {1, 10, 27, 28, 40}) {
    path_ = directory_.File(absl::StrCat("torn-", size));
    WriteFile(path_, whole.substr(0, size));
    EXPECT_THAT(Open(0).status(), IsOk()) << size;
  }
}

TEST_F(FileStoreTest, OtherContentsAreRefusedAndLeftAsTheyAre) {
  for (const std::string& bytes :
       {std::string("x"), std::string("\0\0\0\0", 4), std::string("tutti file store, format 2\n"),
        std::string(100000, '\x5a'), std::string("#!/bin/sh\necho precious\n")}) {
    WriteFile(path_, bytes);
    ExpectRefusal(kFailedPrecondition, "holds something else", "remove the file or use another path");
    EXPECT_EQ(ReadFile(path_), bytes);
  }
}

TEST_F(FileStoreTest, DamagedRecordsAreRefused) {
  auto zero = Open(0).value();
  const std::string whole = ReadFile(path_);
  const std::string huge("\xff\xff\xff\xff", 4), unknown("\x01\0\0\0?", 5), empty("\0\0\0\0", 4);
  for (const std::string& damage : {huge, unknown, empty}) {
    WriteFile(path_, whole + damage + std::string(100, 'x'));
    EXPECT_THAT(Open(1).status(), Fails(kFailedPrecondition, path_, "holds something else"));
  }
  WriteFile(path_, whole);
  EXPECT_THAT(zero->Set("key", "x"), IsOk());
}

TEST_F(FileStoreTest, ADirectoryIsRefused) {
  fs::create_directory(path_);
  ExpectRefusal(kFailedPrecondition, "is a directory");
}

TEST_F(FileStoreTest, AMissingDirectoryIsNamed) {
  const std::string missing = directory_.File("missing");
  path_ = missing + "/store";
  ExpectRefusal(kFailedPrecondition, "the directory " + missing + " does not exist");
}

TEST_F(FileStoreTest, AFifoIsRefusedWithoutWaitingForItsReader) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefusal(kFailedPrecondition, "is a FIFO");
}

TEST_F(FileStoreTest, LinksAreRefusedWithTheirTarget) {
  const std::string target = directory_.File("target");
  fs::create_symlink(target, path_);
  ExpectRefusal(kFailedPrecondition, "dangling symbolic link to " + target);
  WriteFile(target, "");
  ExpectRefusal(kFailedPrecondition, "is a symbolic link to " + target);
}

TEST_F(FileStoreTest, AFileThatMayNotBeWrittenIsRefusedWithItsOwner) {
  WriteFile(path_, "");
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  const uid_t user = geteuid();
  // Root may write everything; the superuser's test becomes somebody else for a while.
  if (user == 0) {
    fs::permissions(fs::path(path_).parent_path(), fs::perms::all);
    if (seteuid(65534) != 0) GTEST_SKIP() << "cannot become another user: " << strerror(errno);
  }
  ExpectRefusal(kPermissionDenied, "cannot open", absl::StrCat("owner ", user, ", mode 0444"));
  ASSERT_EQ(seteuid(user), 0);
}

// While it lives, no file of this process may grow beyond `bytes`: stands for a full file system.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  sighandler_t handler_;
};

TEST_F(FileStoreTest, WithoutSpaceOpeningFailsAndLeavesNothing) {
  const FileSizeLimit limit(10);
  EXPECT_THAT(Open(0).status(),
              testing::Property(&absl::Status::message, testing::HasSubstr(path_ + ": cannot write")));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(FileStoreTest, WithoutSpaceAVerbFailsAndTheStoreIsAsBefore) {
  auto zero = Open(0).value();
  auto one = Open(1).value();
  ASSERT_THAT(zero->Set("key", "x"), IsOk());
  {
    const FileSizeLimit limit(fs::file_size(path_) + 100);
    EXPECT_THAT(zero->Set("key", std::string(1000, 'y')).message(), testing::HasSubstr("cannot write"));
    EXPECT_EQ(zero->Get("key", Soon()).value(), "x");
  }
  EXPECT_EQ(one->Get("key", Soon()).value(), "x");
  EXPECT_THAT(zero->Set("key", std::string(1000, 'y')), IsOk());
  EXPECT_EQ(one->Get("key", Soon()).value(), std::string(1000, 'y'));
}

TEST_F(FileStoreTest, ARelativePathIsNamedInFull) {
  EXPECT_THAT(OpenFileStore("missing/./store", TestIdentity(0, 1), Soon()).status(),
              Fails(kFailedPrecondition, (fs::current_path() / "missing/store").string()));
}

TEST_F(FileStoreTest, ALockThatIsNeverGivenBackEndsTheWaitAtTheDeadline) {
  auto store = Open(0).value();
  Fd holder(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  whole.l_start = off_t{1} << 40;
  whole.l_len = 1;
  ASSERT_EQ(fcntl(holder.get(), F_OFD_SETLK, &whole), 0);
  EXPECT_THAT(OpenFileStore(path_, TestIdentity(1, 2), Brief()).status(),
              Fails(kDeadlineExceeded, path_, "another process has kept it locked"));
}

TEST_F(FileStoreTest, AForkedChildDoesNotCloseItsParentsStore) {
  auto store = Open(0).value();
  const pid_t pid = fork();
  if (pid == 0) {
    store.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(path_));
  EXPECT_EQ(Open(1).value()->Add("n", 1).value(), 1);
}

}  // namespace
}  // namespace tutti
