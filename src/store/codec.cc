#include "src/store/codec.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr size_t kStatusBytesMax = 32 << 10;

}  // namespace

void Writer::Number(uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
}

void Writer::Bytes(absl::string_view value) {
  U32(static_cast<uint32_t>(value.size()));
  bytes_.append(value.data(), value.size());
}

void Writer::Strings(const std::vector<std::string>& values) {
  U32(static_cast<uint32_t>(values.size()));
  for (const std::string& value : values) Bytes(value);
}

void Reader::Fail() {
  failed_ = true;
  left_ = {};
}

uint64_t Reader::Number(size_t size) {
  if (left_.size() < size) {
    Fail();
    return 0;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(left_[i])} << (8 * i);
  left_.remove_prefix(size);
  return value;
}

std::string Reader::Bytes(size_t max) {
  const size_t size = U32();
  if (size > max || size > left_.size()) {
    Fail();
    return {};
  }
  std::string value(left_.substr(0, size));
  left_.remove_prefix(size);
  return value;
}

std::vector<std::string> Reader::Strings(size_t max_count, size_t max_bytes_each) {
  const size_t count = U32();
  if (count > max_count || count > left_.size() / 4) {
    Fail();
    return {};
  }
  std::vector<std::string> values;
  values.reserve(count);
  for (size_t i = 0; i < count && !failed_; ++i) values.push_back(Bytes(max_bytes_each));
  return values;
}

absl::Status Reader::Finish() const {
  if (failed_) return absl::InvalidArgumentError("malformed bytes: too short, or a length out of bounds");
  if (!left_.empty()) return absl::InvalidArgumentError(absl::StrCat("malformed bytes: ", left_.size(), " too many"));
  return absl::OkStatus();
}

void Put(const Request& request, Writer& writer) {
  writer.U8(static_cast<uint8_t>(request.verb));
  writer.U64(static_cast<uint64_t>(request.delta));
  writer.Strings(request.keys);
  writer.Strings(request.values);
}

absl::StatusOr<Request> TakeRequest(Reader& reader) {
  Request request;
  const uint8_t verb = reader.U8();
  if (verb < static_cast<uint8_t>(Verb::kSet) || verb > static_cast<uint8_t>(Verb::kList)) {
    return absl::InvalidArgumentError(absl::StrCat("malformed request: no verb has the number ", verb));
  }
  request.verb = static_cast<Verb>(verb);
  request.delta = static_cast<int64_t>(reader.U64());
  request.keys = reader.Strings(StoreLimits::kKeysPerCall, StoreLimits::kKeyBytes);
  request.values = reader.Strings(StoreLimits::kKeysPerCall, StoreLimits::kValueBytes);
  TUTTI_RETURN_IF_ERROR(reader.Finish());
  TUTTI_RETURN_IF_ERROR(CheckRequest(request));
  return request;
}

void Put(const Response& response, Writer& writer) {
  writer.U32(static_cast<uint32_t>(response.status.code()));
  writer.Bytes(response.status.message().substr(0, kStatusBytesMax));
  writer.U64(static_cast<uint64_t>(response.number));
  writer.Strings(response.values);
}

absl::StatusOr<Response> TakeResponse(Reader& reader) {
  Response response;
  const uint32_t code = reader.U32();
  const std::string message = reader.Bytes(kStatusBytesMax);
  response.number = static_cast<int64_t>(reader.U64());
  response.values = reader.Strings(StoreLimits::kKeysPerCall, StoreLimits::kValueBytes);
  TUTTI_RETURN_IF_ERROR(reader.Finish());
  if (code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError(absl::StrCat("malformed response: no status has the code ", code));
  }
  response.status = absl::Status(static_cast<absl::StatusCode>(code), message);
  return response;
}

}  // namespace tutti
