#include "src/engine/mailbox.h"

#include <algorithm>

namespace tutti {
namespace {

bool MayTake(const EngineOperation& receive, int peer, uint32_t label) {
  return (receive.peer == kAnyPeer || receive.peer == peer) && receive.label == label;
}

}  // namespace

EngineOperation* Mailbox::TakePosted(int peer, uint32_t label) {
  const auto found = std::find_if(posted_.begin(), posted_.end(),
                                  [&](const EngineOperation* each) { return MayTake(*each, peer, label); });
  if (found == posted_.end()) return nullptr;
  EngineOperation* const receive = *found;
  posted_.erase(found);
  return receive;
}

bool Mailbox::IsAwaited(int peer) const {
  return std::any_of(posted_.begin(), posted_.end(),
                     [&](const EngineOperation* each) { return each->peer == kAnyPeer || each->peer == peer; });
}

void Mailbox::Bind(EngineOperation* receive, int peer, uint32_t sequence) {
  receive->peer = peer;
  receive->sequence = sequence;
  bound_.push_back(receive);
}

EngineOperation* Mailbox::FindBound(int peer, uint32_t sequence) const {
  const auto found = std::find_if(bound_.begin(), bound_.end(), [&](const EngineOperation* each) {
    return each->peer == peer && each->sequence == sequence;
  });
  return found == bound_.end() ? nullptr : *found;
}

void Mailbox::Unbind(const EngineOperation* receive) {
  bound_.erase(std::remove(bound_.begin(), bound_.end(), receive), bound_.end());
}

Mailbox::Early* Mailbox::TakeEarly(int peer, const MessageTag& tag, uint64_t bytes) {
  if (bytes > kEarlyBytesMax - early_bytes_) return nullptr;
  early_bytes_ += bytes;
  early_.push_back({.peer = peer, .tag = tag, .bytes = bytes, .payload = std::make_unique<std::byte[]>(bytes)});
  return &early_.back();
}

Mailbox::Early* Mailbox::FindEarly(int peer, uint32_t sequence, uint32_t segment) {
  const auto found = std::find_if(early_.begin(), early_.end(), [&](const Early& each) {
    return each.peer == peer && each.tag.sequence == sequence && each.tag.segment == segment;
  });
  return found == early_.end() ? nullptr : &*found;
}

bool Mailbox::HasEarly(int peer, uint32_t sequence) const {
  return std::any_of(early_.begin(), early_.end(),
                     [&](const Early& each) { return each.peer == peer && each.tag.sequence == sequence; });
}

const Mailbox::Early* Mailbox::OldestEarly(int peer, uint32_t label) const {
  const auto found = std::find_if(early_.begin(), early_.end(), [&](const Early& each) {
    return each.tag.segment == 0 && (peer == kAnyPeer || each.peer == peer) && each.tag.ordinal == label &&
           FindBound(each.peer, each.tag.sequence) == nullptr;
  });
  return found == early_.end() ? nullptr : &*found;
}

void Mailbox::Drop(const Early* early) {
  early_bytes_ -= early->bytes;
  early_.remove_if([&](const Early& each) { return &each == early; });
}

void Mailbox::Clear() {
  posted_.clear();
  bound_.clear();
  early_.clear();
  early_bytes_ = 0;
}

}  // namespace tutti
