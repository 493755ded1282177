// Dictionary: keys and values in memory, and what each verb does to them. No waiting, no threads: whoever owns it
// provides those.

#ifndef TUTTI_SRC_STORE_DICTIONARY_H_
#define TUTTI_SRC_STORE_DICTIONARY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/store/request.h"

namespace tutti {

class Dictionary {
 public:
  // Refuses to hold more than `capacity_bytes`, each entry counted with its key and some bookkeeping.
  explicit Dictionary(size_t capacity_bytes = size_t{1} << 30) : capacity_bytes_(capacity_bytes) {}

  // Carries out a request that CheckRequest approves; all of it, or on error nothing. A request that waits is answered
  // as at its deadline: kDeadlineExceeded names the keys that are missing.
  Response Apply(const Request& request);

  bool Contains(absl::string_view key) const { return entries_.find(key) != entries_.end(); }
  bool ContainsAll(const std::vector<std::string>& keys) const;
  // Counts the requests that changed something.
  uint64_t version() const { return version_; }

 private:
  Response Set(const Request& request);
  Response Get(const Request& request) const;
  Response Add(const Request& request);
  Response CompareSet(const Request& request);
  Response Delete(const Request& request);
  Response Append(const Request& request);
  Response List(const Request& request) const;

  absl::Status CheckPresent(const std::vector<std::string>& keys) const;
  // Bytes by which the entry grows if its value becomes one of `value_bytes`.
  int64_t Growth(absl::string_view key, size_t value_bytes) const;
  absl::Status CheckRoom(int64_t growth) const;
  void Store(absl::string_view key, std::string value);

  const size_t capacity_bytes_;
  std::map<std::string, std::string, std::less<>> entries_;
  size_t held_bytes_ = 0;
  uint64_t version_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_DICTIONARY_H_
