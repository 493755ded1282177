// Takes the place of src/transport/shm/segment.cc in programs that list it: a segment is mapped once in this process,
// however many ranks attach it. So ThreadSanitizer, which goes by addresses, sees what the ranks of one process do to
// each other's memory. Segments are not sealed, and cannot be made private.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/transport/shm/segment.h"

namespace tutti {
namespace {

struct Mapping {
  std::byte* data = nullptr;
  size_t bytes = 0;
  int uses = 0;
};

class Mappings {
 public:
  std::byte* Map(int descriptor, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    struct stat status = {};
    if (::fstat(descriptor, &status) != 0) return nullptr;
    absl::MutexLock lock(&mutex_);
    Mapping& mapping = by_file_[status.st_ino];
    if (mapping.uses == 0) {
      void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
      if (data == MAP_FAILED) return nullptr;
      mapping = {.data = static_cast<std::byte*>(data), .bytes = bytes};
    }
    if (mapping.bytes != bytes) return nullptr;
    ++mapping.uses;
    return mapping.data;
  }

  void Unmap(int descriptor) ABSL_LOCKS_EXCLUDED(mutex_) {
    struct stat status = {};
    if (::fstat(descriptor, &status) != 0) return;
    absl::MutexLock lock(&mutex_);
    const auto found = by_file_.find(status.st_ino);
    if (--found->second.uses > 0) return;
    ::munmap(found->second.data, found->second.bytes);
    by_file_.erase(found);
  }

 private:
  absl::Mutex mutex_;
  std::map<ino_t, Mapping> by_file_ ABSL_GUARDED_BY(mutex_);
};

Mappings& TheMappings() {
  static auto* const mappings = new Mappings;
  return *mappings;
}

}  // namespace

absl::StatusOr<Segment> Segment::Create(size_t bytes) {
  const size_t rounded = (bytes + 4095) / 4096 * 4096;
  if (rounded == 0) return Segment();
  Fd descriptor(::memfd_create("tutti-test", MFD_CLOEXEC));
  if (::ftruncate(descriptor.get(), static_cast<off_t>(rounded)) != 0) return absl::ResourceExhaustedError("ftruncate");
  return Map(std::move(descriptor), rounded);
}

absl::StatusOr<Segment> Segment::Attach(Fd descriptor, size_t bytes) { return Map(std::move(descriptor), bytes); }

absl::StatusOr<Segment> Segment::Map(Fd descriptor, size_t bytes) {
  std::byte* const data = TheMappings().Map(descriptor.get(), bytes);
  if (data == nullptr) return absl::InvalidArgumentError("no segment of this size");
  return Segment(std::move(descriptor), data, bytes);
}

absl::Status Segment::MakePrivate() { return absl::UnimplementedError("others have the same mapping"); }

Segment::~Segment() {
  if (data_ != nullptr) TheMappings().Unmap(descriptor_.get());
}

}  // namespace tutti
