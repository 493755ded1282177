// What a tcp store's client and server say to each other, one message a frame, after their hellos.
//
// The client calls; the server answers each call once, in any order. Before a server ends, it says so; a client says
// goodbye by closing its side.

#ifndef TUTTI_SRC_STORE_TCP_MESSAGES_H_
#define TUTTI_SRC_STORE_TCP_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/frame_connection.h"
#include "src/store/codec.h"
#include "src/store/request.h"

namespace tutti {

inline constexpr absl::string_view kStorePurpose = "store";

// For a peer whose hello has been accepted.
inline constexpr FrameConnection::Limits kStoreFrameLimits = {.frame_bytes = kEncodedBytesMax + 64,
                                                              .backlog_bytes = size_t{1} << 30};

struct StoreCall {
  uint64_t id = 0;
  absl::Duration timeout;  // of a request that waits; a duration, since clocks differ
  Request request;
};

struct StoreAnswer {
  uint64_t id = 0;
  Response response;
};

std::string Encode(const StoreCall& call);
std::string Encode(const StoreAnswer& answer);
std::string EncodeStoreEnded();

absl::StatusOr<StoreCall> DecodeStoreCall(absl::string_view payload);
// nullopt: the server has ended.
absl::StatusOr<std::optional<StoreAnswer>> DecodeStoreAnswer(absl::string_view payload);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_TCP_MESSAGES_H_
