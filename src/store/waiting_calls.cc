#include "src/store/waiting_calls.h"

namespace tutti {

std::optional<size_t> WaitingCalls::FindMissing(const Request& request, size_t begin) const {
  const size_t count = request.keys.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t index = (begin + i) % count;
    if (!dictionary_.Contains(request.keys[index])) return index;
  }
  return std::nullopt;
}

void WaitingCalls::Add(Id id, Request request) {
  const size_t index = FindMissing(request, 0).value_or(0);
  parked_[request.keys[index]].insert(id);
  calls_.insert_or_assign(id, Call{std::move(request), index});
}

void WaitingCalls::Unpark(Id id, const std::string& key) {
  const auto parked = parked_.find(key);
  if (parked == parked_.end()) return;
  parked->second.erase(id);
  if (parked->second.empty()) parked_.erase(parked);
}

std::optional<Request> WaitingCalls::Remove(Id id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return std::nullopt;
  Unpark(id, found->second.request.keys[found->second.parked_at]);
  Request request = std::move(found->second.request);
  calls_.erase(found);
  return request;
}

std::vector<WaitingCalls::Id> WaitingCalls::RemoveClient(uint64_t client) {
  std::vector<Id> ids;
  for (auto call = calls_.lower_bound(Id{client, 0}); call != calls_.end() && call->first.client == client; ++call) {
    ids.push_back(call->first);
  }
  for (const Id id : ids) Remove(id);
  return ids;
}

std::vector<std::pair<WaitingCalls::Id, Request>> WaitingCalls::Wake(const std::string& key) {
  std::vector<std::pair<Id, Request>> ready;
  auto woken = parked_.extract(key);
  if (woken.empty()) return ready;
  for (const Id id : woken.mapped()) {
    const auto call = calls_.find(id);
    const std::optional<size_t> index = FindMissing(call->second.request, call->second.parked_at);
    if (index.has_value()) {
      call->second.parked_at = *index;
      parked_[call->second.request.keys[*index]].insert(id);
    } else {
      ready.emplace_back(id, std::move(call->second.request));
      calls_.erase(call);
    }
  }
  return ready;
}

}  // namespace tutti
