#include "src/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "src/base/cgroup.h"

namespace tutti {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

int CpusInAffinityMask() {
  // The kernel refuses a mask that is smaller than its own.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(cpus), [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    if (mask == nullptr) break;
    if (::sched_getaffinity(0, bytes, mask.get()) == 0) return CPU_COUNT_S(bytes, mask.get());
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

HostInfo ThisHost() {
  HostInfo info;
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) == 0) info.hostname = name.data();
  info.boot_id = std::string(absl::StripAsciiWhitespace(ReadFile("/proc/sys/kernel/random/boot_id").value_or("")));
  info.pid = ::getpid();
  return info;
}

int UsableCpus() {
  const int cpus = std::max(1, CpusInAffinityMask());
  const std::optional<int> limit = CgroupCpuLimit(ReadFile("/proc/self/cgroup").value_or(""), ReadFile);
  return std::min(cpus, limit.value_or(cpus));
}

}  // namespace tutti
