#include "src/group/split.h"

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr int kNoColor = -1;

// What a rank tells the others. A text ends with a NUL, or where it is full.
struct Application {
  int32_t color = kNoColor;
  int32_t key = 0;
  uint32_t number = 0;     // of this split, as the rank counts
  char address[100] = {};  // where it listens; "": nowhere
  char problem[400] = {};  // why it cannot take part
};

template <size_t kSize>
void Put(absl::string_view text, char (&field)[kSize]) {
  text.copy(field, kSize);
}

template <size_t kSize>
absl::string_view Get(const char (&field)[kSize]) {
  return {field, ::strnlen(field, kSize)};
}

// Listens too, if the rank is to be a member.
Application Apply(const SplitParent& parent, uint32_t number, int color, int key, Fd& listener) {
  Application application{.color = color, .key = key, .number = number};
  if (color < 0) return application;
  absl::StatusOr<Fd> opened = Listen(parent.process->address, parent.process->settings.ports);
  absl::StatusOr<SocketAddress> address = opened.ok() ? LocalAddress(opened->get()) : opened.status();
  if (!address.ok()) {
    Put(absl::StrCat(Describe(parent.self), " cannot listen: ", address.status().message()), application.problem);
    return application;
  }
  listener = *std::move(opened);
  Put(address->ToString(), application.address);
  return application;
}

// The first problem of any rank, so that all ranks fail alike.
absl::Status CheckAll(absl::Span<const Application> applications) {
  for (size_t rank = 0; rank < applications.size(); ++rank) {
    const Application& application = applications[rank];
    if (application.color < kNoColor) {
      return absl::InvalidArgumentError(absl::StrCat("split: rank ", rank, " passed the color ", application.color,
                                                     ": it must be 0 or more, or -1 for none"));
    }
    if (const absl::string_view problem = Get(application.problem); !problem.empty()) {
      return absl::UnavailableError(absl::StrCat("split: ", problem));
    }
  }
  return absl::OkStatus();
}

// The parent's ranks of that color, in their order in the new group.
std::vector<int> MembersOf(absl::Span<const Application> applications, int color) {
  std::vector<int> members;
  for (size_t rank = 0; rank < applications.size(); ++rank) {
    if (applications[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return applications[static_cast<size_t>(a)].key < applications[static_cast<size_t>(b)].key;
  });
  return members;
}

// Tells the connections of one group from those of another that had the same port before (FNV-1a).
uint64_t Generation(uint64_t parent, absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : absl::StrCat(parent, "/", name)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> SplitGroup(SplitParent& parent, ProcessGroup& group, int color, int key) {
  const absl::Time deadline = absl::Now() + parent.process->settings.timeout;
  Fd listener;
  const Application mine = Apply(parent, ++parent.splits, color, key, listener);
  std::vector<Application> applications(static_cast<size_t>(group.size()));
  TUTTI_RETURN_IF_ERROR(
      group
          .AllGather(ConstTensor(&mine, sizeof(mine), DataType::kUInt8),
                     Tensor(applications.data(), applications.size() * sizeof(mine), DataType::kUInt8))
          .Wait());
  TUTTI_RETURN_IF_ERROR(CheckAll(applications));
  if (color == kNoColor) return nullptr;

  const std::vector<int> members = MembersOf(applications, color);
  const Application& leader = applications[static_cast<size_t>(members[0])];
  JobGroupPlan plan;
  plan.process = parent.process;
  plan.name = absl::StrCat(parent.name, parent.name.empty() ? "" : ", ", "split ", leader.number, " color ", color);
  plan.self = parent.self;
  plan.self.rank = static_cast<int>(std::find(members.begin(), members.end(), group.rank()) - members.begin());
  plan.self.world_size = static_cast<int>(members.size());
  plan.self.generation = Generation(parent.self.generation, plan.name);
  TUTTI_ASSIGN_OR_RETURN(plan.place.server, SocketAddress::Parse(Get(leader.address)));
  (plan.self.rank == 0 ? plan.place.listener : plan.listener) = std::move(listener);
  plan.oversubscribed = parent.oversubscribed;
  plan.choices.push_back(absl::StrCat("group = ", plan.name, ", key ", key, " (rank ", group.rank(), " of ",
                                      group.size(), " in ", parent.name.empty() ? "the job" : parent.name, ")"));
  plan.deadline = deadline;
  return JoinGroup(std::move(plan));
}

}  // namespace tutti
