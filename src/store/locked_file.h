// LockedFile: a file of records that several processes append to, one at a time. It begins with a magic line, which
// comes and goes with the first record; a file that begins otherwise is left as it is.
//
// The lock belongs to the open file (F_OFD_SETLK), not to the process: two LockedFiles of one process exclude each
// other, and closing one does not drop the other's lock. Besides the lock there are *slots*, held from HoldSlot until
// the LockedFile is closed or its process is dead: the kernel's own word on who is alive.
//
// Not thread-safe.

#ifndef TUTTI_SRC_STORE_LOCKED_FILE_H_
#define TUTTI_SRC_STORE_LOCKED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/fd.h"

namespace tutti {

class LockedFile {
 public:
  // Opens or creates a regular file, not through a link. Errors at once, with the path and the reason.
  static absl::StatusOr<LockedFile> Open(const std::string& absolute_path);

  // The exclusive lock; kDeadlineExceeded if others hold it for that long.
  absl::Status Lock(absl::Time deadline);
  void Unlock();

  // False if another open file holds the slot. For callers that hold the lock.
  bool HoldSlot(int slot);
  bool SlotIsHeld(int slot) const;

  // Whether the path no longer leads to this file.
  bool Removed() const;
  absl::StatusOr<int64_t> Size() const;

  // With the lock, from here on.

  // The record at `offset` (0: the first), which moves behind it; nullopt at the end. A record that its writer did not
  // live to finish is cut off. kFailedPrecondition for a file that is not ours, and for a size above `max_bytes`.
  absl::StatusOr<std::optional<std::string>> ReadRecord(int64_t& offset, size_t max_bytes);
  // Appends at `offset`, the end, which moves behind the record. On error the file is as before.
  absl::Status AppendRecord(int64_t& offset, absl::string_view record);
  absl::Status Truncate();  // to nothing
  void Remove();            // unless Removed()

  const std::string& path() const { return path_; }
  // kFailedPrecondition: the file does not hold what it should, with what to do.
  absl::Status Foreign(absl::string_view detail) const;

 private:
  LockedFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  absl::Status Error(int error, absl::string_view what) const;
  // Moves `offset` from 0 behind the magic; leaves it if the file is empty or holds a part of it, which is cut off.
  absl::Status ReadMagic(int64_t size, int64_t& offset);

  std::string path_;
  Fd fd_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_LOCKED_FILE_H_
