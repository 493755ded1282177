#include "src/base/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = size_t{4} << 10;

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Pages> Pages::Map(size_t bytes) {
  Pages pages;
  if (bytes == 0) return pages;
  const size_t unit = bytes >= kHugePage ? kHugePage : kPage;
  if (bytes > SIZE_MAX - 2 * unit) {
    errno = ENOMEM;
    return NoMemory(bytes);
  }
  const size_t rounded = (bytes + unit - 1) / unit * unit;
  // One huge page more, so that the part that is kept can begin at a huge page.
  const size_t slack = unit == kHugePage ? unit : 0;
  void* raw = mmap(nullptr, rounded + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return NoMemory(bytes);
  auto* begin = static_cast<std::byte*>(raw);
  const size_t lead = slack == 0 ? 0 : (unit - reinterpret_cast<uintptr_t>(begin) % unit) % unit;
  if (lead > 0) munmap(begin, lead);
  if (slack > lead) munmap(begin + lead + rounded, slack - lead);
  pages.data_ = begin + lead;
  pages.mapped_bytes_ = rounded;
  madvise(pages.data_, rounded, MADV_HUGEPAGE);  // a wish
#ifdef MADV_POPULATE_WRITE
  // Older kernels do not know it; then the first use faults. Lack of memory is found out here rather than by a signal.
  if (madvise(pages.data_, rounded, MADV_POPULATE_WRITE) != 0 && (errno == ENOMEM || errno == EFAULT)) {
    return NoMemory(bytes);
  }
#endif
  return pages;
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

}  // namespace tutti
