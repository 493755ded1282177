#include "src/transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/base/system_error.h"

namespace tutti {
namespace {

constexpr size_t kPage = size_t{4} << 10;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status NoMemory(size_t bytes, absl::string_view why) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes of shared memory: ", why));
}

// Asking for what can never be had ends in no error: the kernel would kill somebody when all memory is taken, or this
// process at its limit.
absl::Status CheckPossible(size_t bytes) {
  struct sysinfo machine = {};
  if (::sysinfo(&machine) == 0) {
    const uint64_t all = (uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
    if (bytes > all) return NoMemory(bytes, absl::StrCat("this machine has ", all));
  }
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur / kPage * kPage) {
    return NoMemory(bytes, absl::StrCat("the limit of file sizes, which holds for it too, is ", limit.rlim_cur,
                                        " bytes; raise it with `ulimit -f`"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Segment> Segment::Create(size_t bytes) {
  TUTTI_RETURN_IF_ERROR(CheckPossible(bytes));
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (rounded == 0) return Segment();
  Fd descriptor(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) return SystemError(errno, "memfd_create");
  int result = 0;
  do {
    result = ::fallocate(descriptor.get(), 0, 0, static_cast<off_t>(rounded));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return NoMemory(bytes, std::strerror(errno));
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) return SystemError(errno, "F_ADD_SEALS");
  TUTTI_ASSIGN_OR_RETURN(Segment segment, Map(std::move(descriptor), rounded));
#ifdef MADV_POPULATE_WRITE
  ::madvise(segment.data_, segment.bytes_,
            MADV_POPULATE_WRITE);  // a wish: the pages are there, their entries may not be
#endif
  return segment;
}

absl::StatusOr<Segment> Segment::Attach(Fd descriptor, size_t bytes) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  struct stat status = {};
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals || ::fstat(descriptor.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != bytes || bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a neighbour passed a descriptor that is no sealed segment of ", bytes, " bytes"));
  }
  return Map(std::move(descriptor), bytes);
}

absl::StatusOr<Segment> Segment::Map(Fd descriptor, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return NoMemory(bytes, std::strerror(errno));
  return Segment(std::move(descriptor), static_cast<std::byte*>(data), bytes);
}

absl::Status Segment::MakePrivate() {
  if (data_ == nullptr) return absl::OkStatus();
  void* copy = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return NoMemory(bytes_, std::strerror(errno));
  std::memcpy(copy, data_, bytes_);
  if (::mremap(copy, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) == MAP_FAILED) {
    const int error = errno;
    ::munmap(copy, bytes_);
    return NoMemory(bytes_, std::strerror(error));
  }
  return absl::OkStatus();
}

Segment::~Segment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace tutti
