#include "src/store/tcp_messages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

enum class MessageKind : uint8_t { kCall = 1, kAnswer, kEnded };

constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();

uint64_t ToMicros(absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) return kForever;
  return static_cast<uint64_t>(absl::ToInt64Microseconds(std::max(timeout, absl::ZeroDuration())));
}

absl::Duration FromMicros(uint64_t micros) {
  if (micros > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return absl::InfiniteDuration();
  return absl::Microseconds(static_cast<int64_t>(micros));
}

absl::Status Unexpected(uint8_t kind) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: unexpected kind ", kind));
}

}  // namespace

std::string Encode(const StoreCall& call) {
  Writer writer;
  writer.U8(static_cast<uint8_t>(MessageKind::kCall));
  writer.U64(call.id);
  writer.U64(ToMicros(call.timeout));
  Put(call.request, writer);
  return writer.Take();
}

std::string Encode(const StoreAnswer& answer) {
  Writer writer;
  writer.U8(static_cast<uint8_t>(MessageKind::kAnswer));
  writer.U64(answer.id);
  Put(answer.response, writer);
  return writer.Take();
}

std::string EncodeStoreEnded() {
  Writer writer;
  writer.U8(static_cast<uint8_t>(MessageKind::kEnded));
  return writer.Take();
}

absl::StatusOr<StoreCall> DecodeStoreCall(absl::string_view payload) {
  Reader reader(payload);
  const uint8_t kind = reader.U8();
  if (kind != static_cast<uint8_t>(MessageKind::kCall)) return Unexpected(kind);
  StoreCall call;
  call.id = reader.U64();
  call.timeout = FromMicros(reader.U64());
  TUTTI_ASSIGN_OR_RETURN(call.request, TakeRequest(reader));
  return call;
}

absl::StatusOr<std::optional<StoreAnswer>> DecodeStoreAnswer(absl::string_view payload) {
  Reader reader(payload);
  const uint8_t kind = reader.U8();
  if (kind == static_cast<uint8_t>(MessageKind::kEnded)) {
    TUTTI_RETURN_IF_ERROR(reader.Finish());
    return std::nullopt;
  }
  if (kind != static_cast<uint8_t>(MessageKind::kAnswer)) return Unexpected(kind);
  StoreAnswer answer;
  answer.id = reader.U64();
  TUTTI_ASSIGN_OR_RETURN(answer.response, TakeResponse(reader));
  return answer;
}

}  // namespace tutti
