// FrameParser: cuts a stream of bytes into frames (see frame_connection.h). Pure: bytes in, payloads out.
//
// Memory grows with the bytes that have arrived, never with a size that a peer merely claims.

#ifndef TUTTI_SRC_BASE_FRAME_PARSER_H_
#define TUTTI_SRC_BASE_FRAME_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

class FrameParser {
 public:
  explicit FrameParser(size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  void Append(absl::string_view bytes);

  // The payload of the next frame; none if it is not complete. kInvalidArgument, for good, as soon as one byte cannot
  // belong to a frame or its payload is too large.
  absl::StatusOr<std::optional<std::string>> Next();

  // No part of a frame is left over. After Next has returned none.
  bool AtBoundary() const { return begin_ == buffer_.size(); }
  void set_frame_bytes_max(size_t bytes) { frame_bytes_max_ = bytes; }

 private:
  absl::Status BadMagic(absl::string_view pending) const;
  void DropParsed();

  size_t frame_bytes_max_;
  std::string buffer_;
  size_t begin_ = 0;  // of the bytes that no frame has taken yet
  uint64_t frames_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_FRAME_PARSER_H_
