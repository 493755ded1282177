// RequestStore: a Store whose verbs are all one function of a Request. What memory, file and tcp stores have in common.

#ifndef TUTTI_SRC_STORE_REQUEST_STORE_H_
#define TUTTI_SRC_STORE_REQUEST_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/store/request.h"
#include "src/store/store.h"

namespace tutti {

class RequestStore : public Store {
 public:
  absl::Status Set(absl::string_view key, absl::string_view value) final;
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) final;
  absl::Status Wait(absl::Span<const std::string> keys, absl::Time deadline) final;
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) final;
  absl::StatusOr<std::optional<std::string>> CompareSet(absl::string_view key,
                                                        std::optional<absl::string_view> expected,
                                                        absl::string_view desired) final;
  absl::StatusOr<bool> Check(absl::Span<const std::string> keys) final;
  absl::StatusOr<bool> Delete(absl::string_view key) final;
  absl::Status Append(absl::string_view key, absl::string_view suffix) final;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) final;
  absl::StatusOr<std::vector<std::string>> MultiGet(absl::Span<const std::string> keys, absl::Time deadline) final;
  absl::Status MultiSet(absl::Span<const std::string> keys, absl::Span<const std::string> values) final;

 protected:
  // Answers a request that CheckRequest approves. One that waits is tried at least once, even after its deadline. A
  // verb without a deadline of its own comes with one that only a store in trouble misses.
  virtual Response Answer(Request request, absl::Time deadline) = 0;

 private:
  // Checks, answers, and says in errors which store and verb it was.
  absl::StatusOr<Response> Call(Request request, absl::Time deadline);
  absl::StatusOr<Response> Call(Request request);
};

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_REQUEST_STORE_H_
