#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/store/dictionary.h"
#include "src/store/request_store.h"
#include "src/store/stores.h"

namespace tutti {
namespace {

class MemoryStore : public RequestStore {
 public:
  std::string Describe() const override { return "memory store"; }

 private:
  Response Answer(Request request, absl::Time deadline) override {
    absl::MutexLock lock(&mutex_);
    if (Waits(request.verb)) {
      const auto complete = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return dictionary_.ContainsAll(request.keys); };
      mutex_.AwaitWithDeadline(absl::Condition(&complete), deadline);
    }
    return dictionary_.Apply(request);
  }

  absl::Mutex mutex_;
  Dictionary dictionary_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Store> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace tutti
