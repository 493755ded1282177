// Requests and responses as bytes: little-endian numbers, strings with their length in front.
//
// Bytes from outside are only believed as far as they reach: each count and length is checked against what is left, and
// against StoreLimits, before anything is allocated for it.

#ifndef TUTTI_SRC_STORE_CODEC_H_
#define TUTTI_SRC_STORE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/store/request.h"
#include "src/store/store.h"

namespace tutti {

// An encoded request or response within StoreLimits is not larger than this.
inline constexpr size_t kEncodedBytesMax = StoreLimits::kCallBytes + 4 * StoreLimits::kKeysPerCall * 2 + (64 << 10);

class Writer {
 public:
  void U8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void U32(uint32_t value) { Number(value, 4); }
  void U64(uint64_t value) { Number(value, 8); }
  void Bytes(absl::string_view value);
  void Strings(const std::vector<std::string>& values);
  std::string Take() { return std::move(bytes_); }

 private:
  void Number(uint64_t value, int size);

  std::string bytes_;
};

// Once something does not fit, every later read returns nothing and Finish says so.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : left_(bytes) {}

  uint8_t U8() { return static_cast<uint8_t>(Number(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  std::string Bytes(size_t max);
  std::vector<std::string> Strings(size_t max_count, size_t max_bytes_each);
  // kInvalidArgument unless all reads succeeded and nothing is left.
  absl::Status Finish() const;

 private:
  uint64_t Number(size_t size);
  void Fail();

  absl::string_view left_;
  bool failed_ = false;
};

void Put(const Request& request, Writer& writer);
void Put(const Response& response, Writer& writer);
// Read up to the end of the bytes. kInvalidArgument for anything that is no request within StoreLimits.
absl::StatusOr<Request> TakeRequest(Reader& reader);
absl::StatusOr<Response> TakeResponse(Reader& reader);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_CODEC_H_
