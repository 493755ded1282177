#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/store/request.h"
#include "src/store/store.h"

namespace tutti {

absl::Status StoreBarrier(Store& store, absl::string_view name, int world_size, absl::Time deadline) {
  const std::string count_key = absl::StrCat(name, "/count"), done_key = absl::StrCat(name, "/done");
  TUTTI_ASSIGN_OR_RETURN(const int64_t count, store.Add(count_key, 1));
  if (count > world_size) {
    return absl::FailedPreconditionError(absl::StrCat("barrier ", QuoteKey(name), " in the ", store.Describe(), ": ",
                                                      count, " callers for a world size of ", world_size,
                                                      "; a name serves once"));
  }
  if (count == world_size) return store.Set(done_key, "");
  absl::Status status = store.Wait({done_key}, deadline);
  if (!absl::IsDeadlineExceeded(status)) return status;
  TUTTI_ASSIGN_OR_RETURN(const int64_t came, store.Add(count_key, 0));
  return absl::DeadlineExceededError(absl::StrCat("barrier ", QuoteKey(name), " in the ", store.Describe(), ": only ",
                                                  came, " of ", world_size, " ranks came before the deadline"));
}

}  // namespace tutti
