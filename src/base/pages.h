// Pages: memory from the kernel, zero-filled, on huge pages where the kernel has them, and present before first use (a
// page fault in the middle of a collective costs more than the collective).

#ifndef TUTTI_SRC_BASE_PAGES_H_
#define TUTTI_SRC_BASE_PAGES_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"

namespace tutti {

class Pages {
 public:
  // kResourceExhausted, with the size and the reason, if there is no such memory. Zero bytes are allowed.
  static absl::StatusOr<Pages> Map(size_t bytes);

  Pages() = default;
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    return *this;
  }
  ~Pages();

  std::byte* data() const { return data_; }  // aligned to a page
  size_t bytes() const { return mapped_bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_PAGES_H_
