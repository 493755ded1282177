#include "src/store/locked_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// Far behind any data; bytes need not exist to be locked.
constexpr off_t kLockOffset = off_t{1} << 40;
constexpr off_t SlotOffset(int slot) { return kLockOffset + 1 + slot; }

constexpr absl::string_view kMagic = "tutti file store, format 1\n";
constexpr size_t kSizeBytes = 4;

struct flock Range(short type, off_t offset) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return range;
}

// 0 or errno.
int SetLock(int fd, short type, off_t offset) {
  struct flock range = Range(type, offset);
  int result;
  do {
    result = fcntl(fd, F_OFD_SETLK, &range);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status Refuse(absl::string_view path, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("file store ", path, ": ", what, "; give a path in an existing directory that all ranks see"));
}

absl::Status CheckLink(const std::string& path) {
  struct stat link = {};
  if (lstat(path.c_str(), &link) != 0 || !S_ISLNK(link.st_mode)) return absl::OkStatus();
  std::error_code ignored;
  struct stat target = {};
  return Refuse(path, absl::StrCat("is a ", stat(path.c_str(), &target) == 0 ? "" : "dangling ", "symbolic link to ",
                                   std::filesystem::read_symlink(path, ignored).string(), ", not a file"));
}

std::string OwnerOf(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return "";
  return absl::StrCat(" (owner ", file.st_uid, ", mode 0", absl::Hex(file.st_mode >> 6 & 7),
                      absl::Hex(file.st_mode >> 3 & 7), absl::Hex(file.st_mode & 7), "; this process runs as user ",
                      geteuid(), ")");
}

absl::Status OpenError(const std::string& path, int error) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  switch (error) {
    case ENOENT:
      return Refuse(path, absl::StrCat("the directory ", directory, " does not exist"));
    case EISDIR:
      return Refuse(path, "is a directory, not a file");
    default:
      return absl::ErrnoToStatus(
          error, absl::StrCat("file store ", path, ": cannot open it", error == EACCES ? OwnerOf(path) : ""));
  }
}

// 0 or errno; a short read is ENODATA.
int ReadFully(int fd, char* data, size_t size, int64_t offset) {
  while (size > 0) {
    const ssize_t got = pread(fd, data, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : ENODATA;
    data += got, size -= got, offset += got;
  }
  return 0;
}

int WriteFully(int fd, const char* data, size_t size, int64_t offset) {
  while (size > 0) {
    const ssize_t put = pwrite(fd, data, size, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : ENOSPC;
    data += put, size -= put, offset += put;
  }
  return 0;
}

}  // namespace

absl::StatusOr<LockedFile> LockedFile::Open(const std::string& absolute_path) {
  TUTTI_RETURN_IF_ERROR(CheckLink(absolute_path));
  // Without O_NONBLOCK, a FIFO or a device could keep us in open().
  Fd fd(open(absolute_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  if (!fd.valid()) return OpenError(absolute_path, errno);
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0) return OpenError(absolute_path, errno);
  if (!S_ISREG(file.st_mode)) return Refuse(absolute_path, absl::StrCat("is ", KindOf(file.st_mode), ", not a file"));
  return LockedFile(absolute_path, std::move(fd));
}

absl::Status LockedFile::Error(int error, absl::string_view what) const {
  return absl::ErrnoToStatus(error, absl::StrCat("file store ", path_, ": ", what));
}

absl::Status LockedFile::Lock(absl::Time deadline) {
  absl::Duration pause = absl::Microseconds(50);
  for (;;) {
    const int error = SetLock(fd_.get(), F_WRLCK, kLockOffset);
    if (error == 0) return absl::OkStatus();
    if (error != EAGAIN && error != EACCES) return Error(error, "cannot lock it");
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("file store ", path_, ": cannot lock it: another process has kept it locked"));
    }
    absl::SleepFor(std::min(pause, left));
    pause = std::min(2 * pause, absl::Milliseconds(10));
  }
}

void LockedFile::Unlock() { SetLock(fd_.get(), F_UNLCK, kLockOffset); }

bool LockedFile::HoldSlot(int slot) { return SetLock(fd_.get(), F_WRLCK, SlotOffset(slot)) == 0; }

bool LockedFile::SlotIsHeld(int slot) const {
  struct flock range = Range(F_WRLCK, SlotOffset(slot));
  // A holder that cannot be ruled out counts as alive: nothing of a living job is touched.
  return fcntl(fd_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

bool LockedFile::Removed() const {
  struct stat here = {}, there = {};
  return fstat(fd_.get(), &here) != 0 || lstat(path_.c_str(), &there) != 0 || here.st_ino != there.st_ino ||
         here.st_dev != there.st_dev;
}

absl::StatusOr<int64_t> LockedFile::Size() const {
  struct stat file = {};
  if (fstat(fd_.get(), &file) != 0) return Error(errno, "cannot stat it");
  return file.st_size;
}

absl::Status LockedFile::Foreign(absl::string_view detail) const {
  return absl::FailedPreconditionError(
      absl::StrCat("file store ", path_, ": holds something else (", detail, "); remove the file or use another path"));
}

absl::Status LockedFile::ReadMagic(int64_t size, int64_t& offset) {
  std::string begin(std::min<size_t>(size, kMagic.size()), '\0');
  if (int error = ReadFully(fd_.get(), begin.data(), begin.size(), 0); error != 0)
    return Error(error, "cannot read it");
  if (begin != kMagic.substr(0, begin.size())) return Foreign("no file of ours begins like this");
  if (begin.size() < kMagic.size()) return Truncate();
  offset = kMagic.size();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> LockedFile::ReadRecord(int64_t& offset, size_t max_bytes) {
  TUTTI_ASSIGN_OR_RETURN(const int64_t end, Size());
  if (offset == 0) {
    TUTTI_RETURN_IF_ERROR(ReadMagic(end, offset));
    if (offset == 0) return std::nullopt;
  }
  const int64_t left = end - offset;
  if (left == 0) return std::nullopt;
  unsigned char prefix[kSizeBytes] = {};
  size_t size = 0;
  if (left >= static_cast<int64_t>(kSizeBytes)) {
    if (int error = ReadFully(fd_.get(), reinterpret_cast<char*>(prefix), kSizeBytes, offset); error != 0) {
      return Error(error, "cannot read it");
    }
    for (size_t i = 0; i < kSizeBytes; ++i) size |= size_t{prefix[i]} << (8 * i);
    if (size > max_bytes) return Foreign(absl::StrCat("a record of ", size, " bytes at byte ", offset));
  }
  if (left < static_cast<int64_t>(kSizeBytes + size)) {
    if (left < 0) return Error(ENODATA, "someone has truncated it");
    // We hold the lock, so whoever wrote this is dead.
    if (ftruncate(fd_.get(), offset) != 0) return Error(errno, "cannot cut off an unfinished record");
    return std::nullopt;
  }
  std::string record(size, '\0');
  if (int error = ReadFully(fd_.get(), record.data(), size, offset + kSizeBytes); error != 0) {
    return Error(error, "cannot read it");
  }
  offset += kSizeBytes + size;
  return record;
}

absl::Status LockedFile::AppendRecord(int64_t& offset, absl::string_view record) {
  std::string bytes(offset == 0 ? kMagic : "");
  bytes.reserve(bytes.size() + kSizeBytes + record.size());
  for (size_t i = 0; i < kSizeBytes; ++i) bytes.push_back(static_cast<char>(record.size() >> (8 * i)));
  bytes.append(record.data(), record.size());
  if (int error = WriteFully(fd_.get(), bytes.data(), bytes.size(), offset); error != 0) {
    // Not checked: an unfinished record is cut off by the next reader as well.
    [[maybe_unused]] const int ignored = ftruncate(fd_.get(), offset);
    return Error(error, absl::StrCat("cannot write ", bytes.size(), " bytes to it"));
  }
  offset += bytes.size();
  return absl::OkStatus();
}

absl::Status LockedFile::Truncate() {
  if (ftruncate(fd_.get(), 0) != 0) return Error(errno, "cannot empty it");
  return absl::OkStatus();
}

void LockedFile::Remove() {
  if (!Removed()) unlink(path_.c_str());
}

}  // namespace tutti
