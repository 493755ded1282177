#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/store/stores.h"

namespace tutti {
namespace {

class PrefixStore : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> base, std::string prefix)
      : base_(std::move(base)), prefix_(absl::StrCat(prefix, "/")) {}

  absl::Status Set(absl::string_view key, absl::string_view value) override { return base_->Set(Full(key), value); }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    return base_->Get(Full(key), deadline);
  }
  absl::Status Wait(absl::Span<const std::string> keys, absl::Time deadline) override {
    return base_->Wait(Full(keys), deadline);
  }
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override { return base_->Add(Full(key), delta); }
  absl::StatusOr<std::optional<std::string>> CompareSet(absl::string_view key,
                                                        std::optional<absl::string_view> expected,
                                                        absl::string_view desired) override {
    return base_->CompareSet(Full(key), expected, desired);
  }
  absl::StatusOr<bool> Check(absl::Span<const std::string> keys) override { return base_->Check(Full(keys)); }
  absl::StatusOr<bool> Delete(absl::string_view key) override { return base_->Delete(Full(key)); }
  absl::Status Append(absl::string_view key, absl::string_view suffix) override {
    return base_->Append(Full(key), suffix);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override {
    TUTTI_ASSIGN_OR_RETURN(std::vector<std::string> keys, base_->List(Full(prefix)));
    for (std::string& key : keys) key.erase(0, prefix_.size());
    return keys;
  }
  absl::StatusOr<std::vector<std::string>> MultiGet(absl::Span<const std::string> keys, absl::Time deadline) override {
    return base_->MultiGet(Full(keys), deadline);
  }
  absl::Status MultiSet(absl::Span<const std::string> keys, absl::Span<const std::string> values) override {
    return base_->MultiSet(Full(keys), values);
  }
  std::string Describe() const override { return absl::StrCat(base_->Describe(), " under ", prefix_); }

 private:
  std::string Full(absl::string_view key) const { return absl::StrCat(prefix_, key); }
  std::vector<std::string> Full(absl::Span<const std::string> keys) const {
    std::vector<std::string> full;
    full.reserve(keys.size());
    for (const std::string& key : keys) full.push_back(Full(key));
    return full;
  }

  const std::shared_ptr<Store> base_;
  const std::string prefix_;
};

}  // namespace

std::unique_ptr<Store> MakePrefixStore(std::shared_ptr<Store> base, std::string prefix) {
  return std::make_unique<PrefixStore>(std::move(base), std::move(prefix));
}

}  // namespace tutti
