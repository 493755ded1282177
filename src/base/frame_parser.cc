#include "src/base/frame_parser.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/frame_connection.h"

namespace tutti {
namespace {

// No text, TLS or SSH stream starts with this first byte.
constexpr absl::string_view kMagic("\xF4Tut", 4);
constexpr size_t kHeaderBytes = 8;
constexpr size_t kKeptBytes = size_t{256} << 10;  // of an idle buffer

uint32_t ReadSize(absl::string_view bytes) {
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i) size |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return size;
}

}  // namespace

std::string EncodeFrame(absl::string_view payload) {
  std::string frame;
  frame.reserve(kHeaderBytes + payload.size());
  absl::StrAppend(&frame, kMagic);
  for (size_t i = 0; i < 4; ++i) frame.push_back(static_cast<char>(payload.size() >> (8 * i)));
  absl::StrAppend(&frame, payload);
  return frame;
}

void FrameParser::Append(absl::string_view bytes) {
  DropParsed();
  buffer_.append(bytes.data(), bytes.size());
}

absl::StatusOr<std::optional<std::string>> FrameParser::Next() {
  const absl::string_view pending = absl::string_view(buffer_).substr(begin_);
  const size_t magic_bytes = std::min(pending.size(), kMagic.size());
  if (pending.substr(0, magic_bytes) != kMagic.substr(0, magic_bytes)) return BadMagic(pending);
  if (pending.size() < kHeaderBytes) return std::nullopt;
  const size_t size = ReadSize(pending.substr(kMagic.size()));
  if (size > frame_bytes_max_) {
    return absl::InvalidArgumentError(absl::StrCat("frame ", frames_ + 1, " of ", size, " bytes is too large: at most ",
                                                   frame_bytes_max_, " are taken"));
  }
  if (pending.size() - kHeaderBytes < size) return std::nullopt;
  begin_ += kHeaderBytes + size;
  ++frames_;
  return std::string(pending.substr(kHeaderBytes, size));
}

absl::Status FrameParser::BadMagic(absl::string_view pending) const {
  const std::string start = absl::CHexEscape(pending.substr(0, kHeaderBytes));
  if (frames_ == 0) return absl::InvalidArgumentError(absl::StrCat("not a Tutti peer: starts with \"", start, "\""));
  return absl::InvalidArgumentError(
      absl::StrCat("the stream is out of step: frame ", frames_ + 1, " starts with \"", start, "\""));
}

// Moves at most as many bytes as have been parsed since the last time.
void FrameParser::DropParsed() {
  if (begin_ == buffer_.size()) {
    if (buffer_.capacity() > kKeptBytes) {
      buffer_ = std::string();
    } else {
      buffer_.clear();
    }
    begin_ = 0;
  } else if (begin_ > buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
}

}  // namespace tutti
