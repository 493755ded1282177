#include "src/store/dictionary.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/store/store.h"

namespace tutti {
namespace {

constexpr size_t kEntryOverheadBytes = 128;

Response Error(absl::Status status) { return Response{.status = std::move(status), .values = {}}; }

bool ParseNumber(absl::string_view text, int64_t& number) {
  // SimpleAtoi alone would take blanks and a plus sign as well.
  const absl::string_view digits = absl::StartsWith(text, "-") ? text.substr(1) : text;
  return std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) &&
         absl::SimpleAtoi(text, &number);
}

}  // namespace

Response Dictionary::Apply(const Request& request) {
  switch (request.verb) {
    case Verb::kSet:
      return Set(request);
    case Verb::kGet:
      return Get(request);
    case Verb::kWait:
      return Error(CheckPresent(request.keys));
    case Verb::kAdd:
      return Add(request);
    case Verb::kCompareSet:
      return CompareSet(request);
    case Verb::kCheck:
      return Response{.status = {}, .values = {}, .number = ContainsAll(request.keys)};
    case Verb::kDelete:
      return Delete(request);
    case Verb::kAppend:
      return Append(request);
    case Verb::kList:
      return List(request);
  }
  return Error(absl::InternalError("unknown verb"));
}

bool Dictionary::ContainsAll(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return Contains(key); });
}

Response Dictionary::Set(const Request& request) {
  int64_t growth = 0;
  for (size_t i = 0; i < request.keys.size(); ++i) growth += Growth(request.keys[i], request.values[i].size());
  if (absl::Status status = CheckRoom(growth); !status.ok()) return Error(std::move(status));
  for (size_t i = 0; i < request.keys.size(); ++i) Store(request.keys[i], request.values[i]);
  if (!request.keys.empty()) ++version_;
  return {};
}

Response Dictionary::Get(const Request& request) const {
  if (absl::Status status = CheckPresent(request.keys); !status.ok()) return Error(std::move(status));
  size_t total = 0;
  for (const std::string& key : request.keys) total += entries_.find(key)->second.size();
  if (total > StoreLimits::kCallBytes) {
    return Error(absl::InvalidArgumentError(absl::StrCat("the ", request.keys.size(), " values have ", total,
                                                         " bytes, more than the limit of ", StoreLimits::kCallBytes,
                                                         " bytes in one call")));
  }
  Response response;
  response.values.reserve(request.keys.size());
  for (const std::string& key : request.keys) response.values.push_back(entries_.find(key)->second);
  return response;
}

Response Dictionary::Add(const Request& request) {
  const std::string& key = request.keys.front();
  const auto entry = entries_.find(key);
  int64_t number = 0;
  if (entry != entries_.end() && !ParseNumber(entry->second, number)) {
    return Error(absl::InvalidArgumentError(
        absl::StrCat("key ", QuoteKey(key), " holds ", QuoteKey(entry->second), ", not a decimal number of 64 bits")));
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(number, request.delta, &sum)) {
    return Error(absl::InvalidArgumentError(
        absl::StrCat("key ", QuoteKey(key), ": ", number, " + ", request.delta, " leaves 64 bits")));
  }
  std::string value = absl::StrCat(sum);
  if (absl::Status status = CheckRoom(Growth(key, value.size())); !status.ok()) return Error(std::move(status));
  Store(key, std::move(value));
  ++version_;
  return Response{.status = {}, .values = {}, .number = sum};
}

Response Dictionary::CompareSet(const Request& request) {
  const std::string& key = request.keys.front();
  const std::string& desired = request.values.front();
  const std::string* expected = request.values.size() == 2 ? &request.values.back() : nullptr;
  const auto entry = entries_.find(key);
  const bool exists = entry != entries_.end();
  const bool matches = expected != nullptr ? exists && entry->second == *expected : !exists;
  if (!matches) {
    Response response;
    if (exists) response.values.push_back(entry->second);
    return response;
  }
  if (absl::Status status = CheckRoom(Growth(key, desired.size())); !status.ok()) return Error(std::move(status));
  Store(key, desired);
  ++version_;
  return Response{.status = {}, .values = {desired}};
}

Response Dictionary::Delete(const Request& request) {
  const auto entry = entries_.find(request.keys.front());
  if (entry == entries_.end()) return {};
  held_bytes_ -= entry->first.size() + entry->second.size() + kEntryOverheadBytes;
  entries_.erase(entry);
  ++version_;
  return Response{.status = {}, .values = {}, .number = 1};
}

Response Dictionary::Append(const Request& request) {
  const std::string& key = request.keys.front();
  const std::string& suffix = request.values.front();
  const auto entry = entries_.find(key);
  const size_t size = (entry != entries_.end() ? entry->second.size() : 0) + suffix.size();
  if (size > StoreLimits::kValueBytes) {
    return Error(absl::InvalidArgumentError(absl::StrCat("key ", QuoteKey(key), " would hold ", size,
                                                         " bytes, more than the limit of ", StoreLimits::kValueBytes,
                                                         " bytes")));
  }
  const int64_t growth = Growth(key, size);
  if (absl::Status status = CheckRoom(growth); !status.ok()) return Error(std::move(status));
  held_bytes_ += growth;
  entries_[key].append(suffix);
  ++version_;
  return {};
}

Response Dictionary::List(const Request& request) const {
  const std::string& prefix = request.keys.front();
  Response response;
  size_t total = 0;
  for (auto entry = entries_.lower_bound(prefix); entry != entries_.end() && absl::StartsWith(entry->first, prefix);
       ++entry) {
    total += entry->first.size();
    if (response.values.size() == StoreLimits::kKeysPerCall || total > StoreLimits::kCallBytes) {
      return Error(absl::InvalidArgumentError(absl::StrCat("more than ", StoreLimits::kKeysPerCall, " keys, or ",
                                                           StoreLimits::kCallBytes, " bytes of keys, begin with ",
                                                           QuoteKey(prefix), "; list with a longer prefix")));
    }
    response.values.push_back(entry->first);
  }
  return response;
}

absl::Status Dictionary::CheckPresent(const std::vector<std::string>& keys) const {
  std::vector<std::string> missing;
  for (const std::string& key : keys) {
    if (!Contains(key)) missing.push_back(key);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(missing.size(), " of ", keys.size(), " keys missing: ", QuoteKeys(missing)));
}

int64_t Dictionary::Growth(absl::string_view key, size_t value_bytes) const {
  const auto entry = entries_.find(key);
  const int64_t bytes = static_cast<int64_t>(value_bytes);
  return entry != entries_.end() ? bytes - static_cast<int64_t>(entry->second.size())
                                 : bytes + static_cast<int64_t>(key.size() + kEntryOverheadBytes);
}

absl::Status Dictionary::CheckRoom(int64_t growth) const {
  if (growth <= 0 || held_bytes_ + static_cast<size_t>(growth) <= capacity_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the store is full: ", growth, " bytes more than the ", held_bytes_,
                                                   " that it holds would exceed its limit of ", capacity_bytes_,
                                                   " bytes; delete keys, or store less"));
}

void Dictionary::Store(absl::string_view key, std::string value) {
  held_bytes_ += Growth(key, value.size());
  entries_.insert_or_assign(std::string(key), std::move(value));
}

}  // namespace tutti
