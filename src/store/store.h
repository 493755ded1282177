// Store: a small shared dictionary by which the processes of a job find each other.
//
// Keys and values are bytes. Thread-safe. A call that waits ends at its deadline with kDeadlineExceeded, which names
// the missing keys. kInvalidArgument: outside StoreLimits, which is checked before anything is done.
// kResourceExhausted: the store is full. kUnavailable: the store is gone. After an error a store is still usable unless
// it is gone.

#ifndef TUTTI_SRC_STORE_STORE_H_
#define TUTTI_SRC_STORE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tutti {

struct StoreLimits {
  static constexpr size_t kKeyBytes = 4 << 10;
  static constexpr size_t kValueBytes = 16 << 20;
  static constexpr size_t kKeysPerCall = 64 << 10;
  static constexpr size_t kCallBytes = 64 << 20;  // keys and values of one call together, and of its answer
};

class Store {
 public:
  virtual ~Store() = default;

  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // Waits for the key.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) = 0;
  // Waits for all keys.
  virtual absl::Status Wait(absl::Span<const std::string> keys, absl::Time deadline) = 0;
  // Adds to a decimal number, 0 if the key is new; returns the sum. kInvalidArgument if the value is no such number, or
  // the sum leaves 64 bits.
  virtual absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) = 0;
  // Sets the key if its value is `expected` (nullopt: if it does not exist). Returns the value afterwards: `desired`,
  // or what stood in the way; nullopt if the key does not exist.
  virtual absl::StatusOr<std::optional<std::string>> CompareSet(absl::string_view key,
                                                                std::optional<absl::string_view> expected,
                                                                absl::string_view desired) = 0;
  // Whether all keys exist.
  virtual absl::StatusOr<bool> Check(absl::Span<const std::string> keys) = 0;
  // Whether the key existed.
  virtual absl::StatusOr<bool> Delete(absl::string_view key) = 0;
  virtual absl::Status Append(absl::string_view key, absl::string_view suffix) = 0;
  // Keys with the prefix, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) = 0;
  // Waits for all keys; values in their order.
  virtual absl::StatusOr<std::vector<std::string>> MultiGet(absl::Span<const std::string> keys,
                                                            absl::Time deadline) = 0;
  virtual absl::Status MultiSet(absl::Span<const std::string> keys, absl::Span<const std::string> values) = 0;

  // Where and what this is, for messages: "tcp store at 10.0.0.1:29500".
  virtual std::string Describe() const = 0;
};

// Returns when `world_size` callers have called it with the same `name`, once each; a name serves once. At the
// deadline, kDeadlineExceeded says how many came.
absl::Status StoreBarrier(Store& store, absl::string_view name, int world_size, absl::Time deadline);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_STORE_H_
