// The whole public API is there and links: a group of one rank reduces.

#include <cstdio>
#include <vector>

#include "tutti/tutti.h"

int main() {
  tutti::ProcessGroupOptions options;
  options.rank = 0;
  options.world_size = 1;
  auto group = tutti::ProcessGroup::Create(options);
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", group.status().ToString().c_str());
    return 1;
  }
  std::vector<float> x(100, 6.0f);
  const absl::Status status = (*group)->AllReduce(absl::MakeSpan(x), {.divisor = 4}).Wait();
  return status.ok() && x[99] == 1.5f ? 0 : 1;
}
