// WaitingCalls: requests that wait for keys of a Dictionary which do not exist yet.
//
// Each is parked at one of its missing keys, so a new key costs no more than the calls that are parked at it. No
// threads, no time.

#ifndef TUTTI_SRC_STORE_WAITING_CALLS_H_
#define TUTTI_SRC_STORE_WAITING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/store/dictionary.h"
#include "src/store/request.h"

namespace tutti {

class WaitingCalls {
 public:
  struct Id {
    uint64_t client = 0, call = 0;
    auto operator<=>(const Id&) const = default;
  };

  explicit WaitingCalls(const Dictionary& dictionary) : dictionary_(dictionary) {}

  // Parks a request some keys of which are missing.
  void Add(Id id, Request request);
  // nullopt if it does not wait (any more).
  std::optional<Request> Remove(Id id);
  // All calls of a client.
  std::vector<Id> RemoveClient(uint64_t client);
  // `key` now exists: removes and returns the calls all keys of which now exist.
  std::vector<std::pair<Id, Request>> Wake(const std::string& key);

 private:
  struct Call {
    Request request;
    size_t parked_at = 0;  // index of the key
  };

  // Index of a missing key, looked for from `begin` on and around.
  std::optional<size_t> FindMissing(const Request& request, size_t begin) const;
  void Unpark(Id id, const std::string& key);

  const Dictionary& dictionary_;
  std::map<Id, Call> calls_;
  std::map<std::string, std::set<Id>> parked_;  // by key
};

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_WAITING_CALLS_H_
