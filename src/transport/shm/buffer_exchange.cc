#include "src/transport/shm/buffer_exchange.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/transport/shm/local_socket.h"

namespace tutti {
namespace {

// Packets. id: which buffer; bytes: how large, with its descriptor.
constexpr uint32_t kBuffer = 0x33535554;
constexpr uint32_t kBufferEnded = 0x34535554;

}  // namespace

BufferExchange::BufferExchange(const Neighbourhood& neighbourhood, std::shared_ptr<BufferRegistry> buffers)
    : neighbourhood_(neighbourhood),
      buffers_(std::move(buffers)),
      theirs_(static_cast<size_t>(neighbourhood.count())) {}

SharedPlace BufferExchange::Share(const void* data, size_t bytes) {
  TellOfEnded();
  const std::optional<SharedPlace> place = buffers_->Find(data, bytes);
  if (!place.has_value() || place->id == 0) return {};
  if (announced_.count(place->id) == 0) {
    const std::optional<BufferRegistry::Handle> handle = buffers_->HandleOf(place->id);
    if (!handle.has_value() || !Broadcast(kBuffer, place->id, handle->bytes, {&handle->descriptor, 1})) return {};
    announced_.insert(place->id);
  }
  return *place;
}

void BufferExchange::TellOfEnded() {
  if (buffers_->ended() == ended_) return;
  for (const uint64_t id : buffers_->EndedSince(ended_)) {
    ++ended_;
    if (announced_.erase(id) > 0) Broadcast(kBufferEnded, id, 0, {});
  }
}

// False if not all neighbours could be told.
bool BufferExchange::Broadcast(uint32_t kind, uint64_t id, size_t bytes, absl::Span<const int> descriptors) {
  bool told = true;
  for (int index = 0; index < neighbourhood_.count(); ++index) {
    if (index == neighbourhood_.self()) continue;
    told &= SendPacket(neighbourhood_.socket(index), {.kind = kind, .id = id, .bytes = bytes}, descriptors).ok();
  }
  return told;
}

absl::StatusOr<std::byte*> BufferExchange::Resolve(int index, const SharedPlace& place, size_t bytes) {
  std::map<uint64_t, Segment>& theirs = theirs_[static_cast<size_t>(index)];
  auto found = theirs.find(place.id);
  if (found == theirs.end()) {
    TUTTI_RETURN_IF_ERROR(ReadPackets(index));
    found = theirs.find(place.id);
  }
  const size_t size = found == theirs.end() ? 0 : found->second.bytes();
  if (place.offset > size || bytes > size - place.offset) {
    return absl::InternalError(absl::StrCat("rank ", neighbourhood_.rank(index), " refers to memory (buffer ", place.id,
                                            ", offset ", place.offset, ", ", bytes,
                                            " bytes) that it has not handed over"));
  }
  return found->second.data() + place.offset;
}

absl::Status BufferExchange::ReadPackets(int index) {
  std::map<uint64_t, Segment>& theirs = theirs_[static_cast<size_t>(index)];
  while (true) {
    absl::StatusOr<std::optional<ReceivedPacket>> received = ReceivePacket(neighbourhood_.socket(index));
    // The end of the neighbour shows elsewhere, if it matters.
    if (absl::IsUnavailable(received.status())) return absl::OkStatus();
    TUTTI_RETURN_IF_ERROR(received.status());
    if (!received->has_value()) return absl::OkStatus();
    const Packet& packet = (*received)->packet;
    if (packet.kind == kBufferEnded) theirs.erase(packet.id);
    if (packet.kind != kBuffer || theirs.count(packet.id) > 0) continue;
    TUTTI_ASSIGN_OR_RETURN(theirs[packet.id], Segment::Attach(std::move((*received)->descriptors[0]), packet.bytes));
  }
}

}  // namespace tutti
