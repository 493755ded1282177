#include "src/store/request_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// For verbs that never wait for another rank.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(60);

std::vector<std::string> One(absl::string_view text) { return {std::string(text)}; }
std::vector<std::string> Many(absl::Span<const std::string> texts) { return {texts.begin(), texts.end()}; }

}  // namespace

absl::StatusOr<Response> RequestStore::Call(Request request) {
  return Call(std::move(request), absl::Now() + kAnswerTimeout);
}

absl::StatusOr<Response> RequestStore::Call(Request request, absl::Time deadline) {
  const Verb verb = request.verb;
  const absl::Time begin = absl::Now();
  absl::Status status = CheckRequest(request);
  if (status.ok()) {
    Response response = Answer(std::move(request), deadline);
    if (response.status.ok()) return response;
    status = std::move(response.status);
  }
  std::string context = absl::StrCat(Describe(), ": ", VerbName(verb), ": ");
  if (absl::IsDeadlineExceeded(status)) {
    absl::StrAppend(&context, "deadline exceeded after ",
                    absl::FormatDuration(absl::Trunc(absl::Now() - begin, absl::Milliseconds(1))), ": ");
  }
  return absl::Status(status.code(), absl::StrCat(context, status.message()));
}

absl::Status RequestStore::Set(absl::string_view key, absl::string_view value) {
  return Call({.verb = Verb::kSet, .keys = One(key), .values = One(value)}).status();
}

absl::StatusOr<std::string> RequestStore::Get(absl::string_view key, absl::Time deadline) {
  TUTTI_ASSIGN_OR_RETURN(Response response, Call({.verb = Verb::kGet, .keys = One(key), .values = {}}, deadline));
  if (response.values.size() != 1)
    return absl::InternalError(absl::StrCat(Describe(), ": get: no value in the answer"));
  return std::move(response.values.front());
}

absl::Status RequestStore::Wait(absl::Span<const std::string> keys, absl::Time deadline) {
  return Call({.verb = Verb::kWait, .keys = Many(keys), .values = {}}, deadline).status();
}

absl::StatusOr<int64_t> RequestStore::Add(absl::string_view key, int64_t delta) {
  TUTTI_ASSIGN_OR_RETURN(const Response response,
                         Call({.verb = Verb::kAdd, .keys = One(key), .values = {}, .delta = delta}));
  return response.number;
}

absl::StatusOr<std::optional<std::string>> RequestStore::CompareSet(absl::string_view key,
                                                                    std::optional<absl::string_view> expected,
                                                                    absl::string_view desired) {
  Request request{.verb = Verb::kCompareSet, .keys = One(key), .values = One(desired)};
  if (expected.has_value()) request.values.emplace_back(*expected);
  TUTTI_ASSIGN_OR_RETURN(Response response, Call(std::move(request)));
  if (response.values.empty()) return std::nullopt;
  return std::move(response.values.front());
}

absl::StatusOr<bool> RequestStore::Check(absl::Span<const std::string> keys) {
  TUTTI_ASSIGN_OR_RETURN(const Response response, Call({.verb = Verb::kCheck, .keys = Many(keys), .values = {}}));
  return response.number != 0;
}

absl::StatusOr<bool> RequestStore::Delete(absl::string_view key) {
  TUTTI_ASSIGN_OR_RETURN(const Response response, Call({.verb = Verb::kDelete, .keys = One(key), .values = {}}));
  return response.number != 0;
}

absl::Status RequestStore::Append(absl::string_view key, absl::string_view suffix) {
  return Call({.verb = Verb::kAppend, .keys = One(key), .values = One(suffix)}).status();
}

absl::StatusOr<std::vector<std::string>> RequestStore::List(absl::string_view prefix) {
  TUTTI_ASSIGN_OR_RETURN(Response response, Call({.verb = Verb::kList, .keys = One(prefix), .values = {}}));
  return std::move(response.values);
}

absl::StatusOr<std::vector<std::string>> RequestStore::MultiGet(absl::Span<const std::string> keys,
                                                                absl::Time deadline) {
  TUTTI_ASSIGN_OR_RETURN(Response response, Call({.verb = Verb::kGet, .keys = Many(keys), .values = {}}, deadline));
  if (response.values.size() != keys.size()) {
    return absl::InternalError(absl::StrCat(Describe(), ": get: ", response.values.size(), " values in the answer for ",
                                            keys.size(), " keys"));
  }
  return std::move(response.values);
}

absl::Status RequestStore::MultiSet(absl::Span<const std::string> keys, absl::Span<const std::string> values) {
  return Call({.verb = Verb::kSet, .keys = Many(keys), .values = Many(values)}).status();
}

}  // namespace tutti
