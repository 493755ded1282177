// The records are, in the order in which they happened: processes that open and close the file, and requests that
// changed something. Every process replays the requests into a dictionary of its own.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "src/base/host.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"
#include "src/store/codec.h"
#include "src/store/dictionary.h"
#include "src/store/file_roster.h"
#include "src/store/locked_file.h"
#include "src/store/request_store.h"
#include "src/store/stores.h"

namespace tutti {
namespace {

constexpr size_t kRecordBytesMax = kEncodedBytesMax + 64;
constexpr absl::Duration kPollMin = absl::Milliseconds(1), kPollMax = absl::Milliseconds(50);
// How long the ranks of a group may take to close the file after the first of them has closed it.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(5);
constexpr absl::Duration kCloseTimeout = absl::Seconds(5);

enum class RecordKind : char { kOpened = 'o', kClosed = 'c', kRequest = 'r' };

std::string OpenedRecord(const Identity& self) {
  Writer writer;
  writer.U8(static_cast<uint8_t>(RecordKind::kOpened));
  writer.U64(static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())));
  writer.Bytes(Encode(Hello{.purpose = "store", .from = self, .refusal = "", .signature = ""}));
  return writer.Take();
}

std::string ClosedRecord(int rank) {
  Writer writer;
  writer.U8(static_cast<uint8_t>(RecordKind::kClosed));
  writer.U32(static_cast<uint32_t>(rank));
  return writer.Take();
}

std::string RequestRecord(const Request& request) {
  Writer writer;
  writer.U8(static_cast<uint8_t>(RecordKind::kRequest));
  Put(request, writer);
  return writer.Take();
}

// Reads all records from `offset` on.
template <typename Function>
absl::Status ForEachRecord(LockedFile& file, int64_t& offset, Function function) {
  for (;;) {
    TUTTI_ASSIGN_OR_RETURN(const std::optional<std::string> record, file.ReadRecord(offset, kRecordBytesMax));
    if (!record.has_value()) return absl::OkStatus();
    Reader reader(*record);
    const auto kind = static_cast<RecordKind>(reader.U8());
    if (const absl::Status status = function(kind, reader); !status.ok()) {
      return file.Foreign(absl::StrCat("damaged before byte ", offset, ": ", status.message()));
    }
  }
}

absl::StatusOr<Opener> TakeOpener(Reader& reader) {
  Opener opener;
  opener.opened = absl::FromUnixNanos(static_cast<int64_t>(reader.U64()));
  const std::string hello_bytes = reader.Bytes(kHelloBytesMax);
  TUTTI_RETURN_IF_ERROR(reader.Finish());
  TUTTI_ASSIGN_OR_RETURN(Hello hello, DecodeHello(hello_bytes));
  opener.identity = std::move(hello.from);
  return opener;
}

// Each rank that opened the file, with what happened last; `end` becomes the end of the file.
absl::StatusOr<std::vector<Opener>> ReadOpeners(LockedFile& file, int64_t& end) {
  std::map<int, Opener> by_rank;
  TUTTI_RETURN_IF_ERROR(ForEachRecord(file, end, [&](RecordKind kind, Reader& reader) -> absl::Status {
    if (kind == RecordKind::kOpened) {
      TUTTI_ASSIGN_OR_RETURN(Opener opener, TakeOpener(reader));
      const int rank = opener.identity.rank;
      by_rank.insert_or_assign(rank, std::move(opener));
    } else if (kind == RecordKind::kClosed) {
      const auto found = by_rank.find(static_cast<int>(reader.U32()));
      if (found != by_rank.end()) found->second.life = Opener::Life::kClosed;
    } else if (kind != RecordKind::kRequest) {
      return absl::InvalidArgumentError("unknown record");
    }
    return absl::OkStatus();
  }));
  const std::string boot_id = ThisHost().boot_id;
  std::vector<Opener> openers;
  for (auto& [rank, opener] : by_rank) {
    if (opener.life != Opener::Life::kClosed && !file.SlotIsHeld(rank)) {
      opener.life = opener.identity.boot_id == boot_id ? Opener::Life::kDead : Opener::Life::kGone;
    }
    openers.push_back(std::move(opener));
  }
  return openers;
}

class FileStore : public RequestStore {
 public:
  // With the file locked; unlocks it.
  FileStore(LockedFile file, Identity self) : path_(file.path()), self_(std::move(self)), file_(std::move(file)) {
    file_.Unlock();
  }
  ~FileStore() override;

  std::string Describe() const override { return absl::StrCat("file store ", path_); }

 private:
  Response Answer(Request request, absl::Time deadline) override;
  // One attempt; nullopt if keys are missing.
  std::optional<Response> Try(const Request& request, bool last, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CatchUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Response ApplyAndRecord(const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Grown() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Identity self_;
  const pid_t pid_ = getpid();
  absl::Mutex mutex_;
  LockedFile file_ ABSL_GUARDED_BY(mutex_);
  int64_t offset_ ABSL_GUARDED_BY(mutex_) = 0;  // up to which records have been replayed
  std::unique_ptr<Dictionary> dictionary_ ABSL_GUARDED_BY(mutex_) = std::make_unique<Dictionary>();
};

FileStore::~FileStore() {
  if (getpid() != pid_) return;  // a forked child's copy
  absl::MutexLock lock(&mutex_);
  if (const absl::Status status = Close(); !status.ok()) {
    TUTTI_LOG_WARNING("{}: not closed properly: {}", Describe(), status.ToString());
  }
}

absl::Status FileStore::Close() {
  TUTTI_RETURN_IF_ERROR(file_.Lock(absl::Now() + kCloseTimeout));
  int64_t end = 0;
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Opener> openers, ReadOpeners(file_, end));
  const bool others = std::any_of(openers.begin(), openers.end(), [this](const Opener& opener) {
    return opener.life == Opener::Life::kAlive && opener.identity.rank != self_.rank;
  });
  if (others) return file_.AppendRecord(end, ClosedRecord(self_.rank));
  file_.Remove();
  return absl::OkStatus();
}

void FileStore::Forget() {
  offset_ = 0;
  dictionary_ = std::make_unique<Dictionary>();
}

absl::Status FileStore::CatchUp() {
  absl::Status status =
      ForEachRecord(file_, offset_, [this](RecordKind kind, Reader& reader) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        if (kind != RecordKind::kRequest) return absl::OkStatus();
        TUTTI_ASSIGN_OR_RETURN(const Request request, TakeRequest(reader));
        return dictionary_->Apply(request).status;
      });
  if (!status.ok()) Forget();
  return status;
}

Response FileStore::ApplyAndRecord(const Request& request) {
  const uint64_t version = dictionary_->version();
  Response response = dictionary_->Apply(request);
  if (dictionary_->version() == version) return response;
  if (absl::Status status = file_.AppendRecord(offset_, RequestRecord(request)); !status.ok()) {
    Forget();  // ours is now ahead of the file: replay
    return {.status = std::move(status), .values = {}};
  }
  return response;
}

std::optional<Response> FileStore::Try(const Request& request, bool last, absl::Time deadline) {
  if (file_.Removed()) {
    return Response{.status = absl::UnavailableError("someone has removed the file"), .values = {}};
  }
  if (absl::Status status = file_.Lock(deadline); !status.ok()) {
    return Response{.status = std::move(status), .values = {}};
  }
  std::optional<Response> response;
  if (absl::Status status = CatchUp(); !status.ok()) {
    response = Response{.status = std::move(status), .values = {}};
  } else if (!Waits(request.verb) || last || dictionary_->ContainsAll(request.keys)) {
    response = ApplyAndRecord(request);
  }
  file_.Unlock();
  return response;
}

bool FileStore::Grown() const {
  const absl::StatusOr<int64_t> size = file_.Size();
  return !size.ok() || *size != offset_;
}

Response FileStore::Answer(Request request, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  absl::Duration pause = kPollMin;
  for (;;) {
    const bool last = absl::Now() >= deadline;
    // The file's own lock is held briefly by its living holders: a few seconds more than a deadline that has passed.
    const absl::Time lock_deadline = std::max(deadline, absl::Now() + kCloseTimeout);
    if (std::optional<Response> response = Try(request, last, lock_deadline)) return *std::move(response);
    const uint64_t version = dictionary_->version();
    // Sleeps without the mutex; another thread of this process wakes us, another process's records are polled for.
    const auto changed = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return dictionary_->version() != version || Grown(); };
    while (absl::Now() < deadline && !file_.Removed() &&
           !mutex_.AwaitWithDeadline(absl::Condition(&changed), std::min(deadline, absl::Now() + pause))) {
      pause = std::min(2 * pause, kPollMax);
    }
  }
}

// The path that messages name, independent of the working directory.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

// Enters `self` into the locked file, whose end is `end`.
absl::Status Register(LockedFile& file, int64_t end, const Identity& self) {
  if (!file.HoldSlot(self.rank)) {
    return absl::AlreadyExistsError(
        absl::StrCat("file store ", file.path(), ": rank ", self.rank, " is already taken by another process"));
  }
  const bool first = end == 0;
  absl::Status status = file.AppendRecord(end, OpenedRecord(self));
  if (!status.ok() && first) file.Remove();
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenFileStore(std::string path, const Identity& self, absl::Time deadline) {
  path = Absolute(path);
  const absl::Time leave_deadline = std::min(deadline, absl::Now() + kLeaveTimeout);
  for (absl::Duration pause = kPollMin;; pause = std::min(2 * pause, kPollMax)) {
    TUTTI_ASSIGN_OR_RETURN(LockedFile file, LockedFile::Open(path));
    TUTTI_RETURN_IF_ERROR(file.Lock(deadline));
    if (file.Removed()) continue;  // its last user closed it after we opened it
    int64_t end = 0;
    TUTTI_ASSIGN_OR_RETURN(const std::vector<Opener> openers, ReadOpeners(file, end));
    const Admission admission = Admit(self, openers);
    if (admission.decision == Admission::Decision::kWait && absl::Now() < leave_deadline) {
      file.Unlock();
      absl::SleepFor(pause);
      continue;
    }
    if (!admission.why.ok()) {
      return absl::Status(admission.why.code(), absl::StrCat("file store ", path, ": ", admission.why.message()));
    }
    if (admission.decision == Admission::Decision::kTakeOver) {
      TUTTI_RETURN_IF_ERROR(file.Truncate());
      end = 0;
    }
    TUTTI_RETURN_IF_ERROR(Register(file, end, self));
    return std::make_unique<FileStore>(std::move(file), self);
  }
}

}  // namespace tutti
