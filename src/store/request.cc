#include "src/store/request.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/store/store.h"

namespace tutti {
namespace {

absl::Status TooLarge(absl::string_view what, size_t size, absl::string_view unit, size_t limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", size, " ", unit, ", more than the limit of ", limit, " ", unit));
}

// Numbers of keys and values that the verb takes.
absl::Status CheckShape(const Request& request) {
  const size_t keys = request.keys.size(), values = request.values.size();
  bool fits = false;
  switch (request.verb) {
    case Verb::kSet:
      fits = keys == values;
      break;
    case Verb::kGet:
    case Verb::kWait:
    case Verb::kCheck:
      fits = values == 0;
      break;
    case Verb::kAdd:
    case Verb::kDelete:
    case Verb::kList:
      fits = keys == 1 && values == 0;
      break;
    case Verb::kCompareSet:
      fits = keys == 1 && (values == 1 || values == 2);
      break;
    case Verb::kAppend:
      fits = keys == 1 && values == 1;
      break;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(keys, " keys and ", values, " values do not go together"));
}

}  // namespace

absl::string_view VerbName(Verb verb) {
  switch (verb) {
    case Verb::kSet:
      return "set";
    case Verb::kGet:
      return "get";
    case Verb::kWait:
      return "wait";
    case Verb::kAdd:
      return "add";
    case Verb::kCompareSet:
      return "compare-set";
    case Verb::kCheck:
      return "check";
    case Verb::kDelete:
      return "delete";
    case Verb::kAppend:
      return "append";
    case Verb::kList:
      return "list";
  }
  return "unknown verb";
}

absl::Status CheckRequest(const Request& request) {
  if (request.keys.size() > StoreLimits::kKeysPerCall) {
    return TooLarge("too many keys in one call", request.keys.size(), "keys", StoreLimits::kKeysPerCall);
  }
  size_t total = 0;
  for (const std::string& key : request.keys) {
    if (key.size() > StoreLimits::kKeyBytes) {
      return TooLarge(absl::StrCat("key ", QuoteKey(key), " is too long"), key.size(), "bytes", StoreLimits::kKeyBytes);
    }
    total += key.size();
  }
  for (const std::string& value : request.values) {
    if (value.size() > StoreLimits::kValueBytes) {
      return TooLarge(absl::StrCat("value of key ", QuoteKey(request.keys.empty() ? "" : request.keys.front()),
                                   request.keys.size() > 1 ? " or another of the call" : "", " is too long"),
                      value.size(), "bytes", StoreLimits::kValueBytes);
    }
    total += value.size();
  }
  if (total > StoreLimits::kCallBytes) {
    return TooLarge("too much in one call", total, "bytes", StoreLimits::kCallBytes);
  }
  return CheckShape(request);
}

std::string QuoteKey(absl::string_view key) {
  constexpr size_t kShown = 80;
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, kShown)), key.size() > kShown ? "...\"" : "\"");
}

std::string QuoteKeys(const std::vector<std::string>& keys) {
  constexpr size_t kNamed = 16;
  std::string text;
  for (size_t i = 0; i < keys.size() && i < kNamed; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", QuoteKey(keys[i]));
  if (keys.size() > kNamed) absl::StrAppend(&text, ", and ", keys.size() - kNamed, " more");
  return text;
}

}  // namespace tutti
