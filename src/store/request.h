// Request and Response: the verbs of a store as data.
//
// Every store answers the same requests. A verb's checks and meaning are therefore written once, here and in
// Dictionary, and a request can be carried to another process or kept in a file.

#ifndef TUTTI_SRC_STORE_REQUEST_H_
#define TUTTI_SRC_STORE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

enum class Verb : uint8_t { kSet = 1, kGet, kWait, kAdd, kCompareSet, kCheck, kDelete, kAppend, kList };

struct Request {
  Verb verb = Verb::kCheck;
  std::vector<std::string> keys;  // kList: the prefix
  // kSet: one for each key. kCompareSet: desired, then expected, if the key is expected to exist. kAppend: the suffix.
  std::vector<std::string> values;
  int64_t delta = 0;  // kAdd
};

struct Response {
  absl::Status status;
  // kGet: one for each key. kCompareSet: the value afterwards, or none. kList: the keys.
  std::vector<std::string> values;
  int64_t number = 0;  // kAdd: the sum. kCheck, kDelete: 1 for yes.
};

absl::string_view VerbName(Verb verb);

// Whether the verb waits for its keys.
inline bool Waits(Verb verb) { return verb == Verb::kGet || verb == Verb::kWait; }

// kInvalidArgument, with the size and the limit, for a request outside StoreLimits or with the wrong number of keys or
// values for its verb.
absl::Status CheckRequest(const Request& request);

// A key as messages show it: quoted, escaped, and cut off if long.
std::string QuoteKey(absl::string_view key);
// The first of many keys, and how many more there are.
std::string QuoteKeys(const std::vector<std::string>& keys);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_REQUEST_H_
