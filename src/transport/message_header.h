// The 40 bytes in front of every message, little-endian:
//
//   0  magic        4 bytes
//   4  sequence     4
//   8  segment      4
//  12  ordinal      4
//  16  fingerprint  8
//  24  bytes        8, of the payload that follows
//  32  block bytes  8

#ifndef TUTTI_SRC_TRANSPORT_MESSAGE_HEADER_H_
#define TUTTI_SRC_TRANSPORT_MESSAGE_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/transport/transport.h"

namespace tutti {

inline constexpr size_t kMessageHeaderBytes = 40;
inline constexpr uint32_t kMessageMagic = 0x324d5554;  // "TUM2"

using MessageHeader = std::array<uint8_t, kMessageHeaderBytes>;

struct DecodedHeader {
  MessageTag tag;
  uint64_t bytes = 0;
};

template <typename Integer>
void StoreLittleEndian(Integer value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(Integer); ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <typename Integer>
Integer LoadLittleEndian(const uint8_t* in) {
  Integer value = 0;
  for (size_t i = 0; i < sizeof(Integer); ++i) value |= static_cast<Integer>(in[i]) << (8 * i);
  return value;
}

inline void EncodeHeader(const MessageTag& tag, uint64_t bytes, MessageHeader& header) {
  StoreLittleEndian(kMessageMagic, header.data());
  StoreLittleEndian(tag.sequence, header.data() + 4);
  StoreLittleEndian(tag.segment, header.data() + 8);
  StoreLittleEndian(tag.ordinal, header.data() + 12);
  StoreLittleEndian(tag.fingerprint, header.data() + 16);
  StoreLittleEndian(bytes, header.data() + 24);
  StoreLittleEndian(tag.block_bytes, header.data() + 32);
}

// Of kMessageHeaderBytes bytes; nothing if they are no header. The size is what the peer says: the sink judges it.
inline std::optional<DecodedHeader> DecodeHeader(const uint8_t* in) {
  if (LoadLittleEndian<uint32_t>(in) != kMessageMagic) return std::nullopt;
  return DecodedHeader{.tag = {.fingerprint = LoadLittleEndian<uint64_t>(in + 16),
                               .sequence = LoadLittleEndian<uint32_t>(in + 4),
                               .segment = LoadLittleEndian<uint32_t>(in + 8),
                               .ordinal = LoadLittleEndian<uint32_t>(in + 12),
                               .block_bytes = LoadLittleEndian<uint64_t>(in + 32)},
                       .bytes = LoadLittleEndian<uint64_t>(in + 24)};
}

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_MESSAGE_HEADER_H_
