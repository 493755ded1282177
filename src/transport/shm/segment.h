// Segment: memory that several processes map, without a name that anybody could guess or leave behind.
//
// It is handed over as a descriptor, and ends with its last mapping and descriptor: nothing stays when processes are
// killed. All of it is reserved before use, and its size is sealed, so that no access can fail (SIGBUS) later, whatever
// a peer does.

#ifndef TUTTI_SRC_TRANSPORT_SHM_SEGMENT_H_
#define TUTTI_SRC_TRANSPORT_SHM_SEGMENT_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/fd.h"

namespace tutti {

class Segment {
 public:
  // Zero-filled. kResourceExhausted if there is no such memory.
  static absl::StatusOr<Segment> Create(size_t bytes);
  // Another process's. kInvalidArgument if the descriptor is not a segment of exactly so many bytes.
  static absl::StatusOr<Segment> Attach(Fd descriptor, size_t bytes);

  Segment() = default;
  Segment(Segment&& other) noexcept
      : descriptor_(std::move(other.descriptor_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Segment& operator=(Segment&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Segment();

  std::byte* data() const { return data_; }  // aligned to a page
  size_t bytes() const { return bytes_; }    // whole pages
  int descriptor() const { return descriptor_.get(); }

  // What is here stays here, but is from now on this process's alone: writes of others no longer show.
  absl::Status MakePrivate();

 private:
  Segment(Fd descriptor, std::byte* data, size_t bytes)
      : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}
  static absl::StatusOr<Segment> Map(Fd descriptor, size_t bytes);

  Fd descriptor_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_SEGMENT_H_
