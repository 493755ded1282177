#include "src/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
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

}  // namespace

HostInfo ThisHost() {
  HostInfo info;
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) == 0) info.hostname = name.data();
  info.boot_id = std::string(absl::StripAsciiWhitespace(ReadFile("/proc/sys/kernel/random/boot_id").value_or("")));
  info.pid = ::getpid();
  return info;
}

CpuSet AllowedCpus() {
  // The kernel refuses a mask that is smaller than its own.
  std::array<cpu_set_t, kCpusMax / CPU_SETSIZE> mask = {};
  CpuSet cpus;
  if (::sched_getaffinity(0, sizeof(mask), mask.data()) == 0) {
    for (size_t cpu = 0; cpu < kCpusMax; ++cpu) cpus[cpu] = CPU_ISSET_S(cpu, sizeof(mask), mask.data());
  }
  if (cpus.none()) cpus.set(0);
  return cpus;
}

std::optional<int> CpuQuota() { return CgroupCpuLimit(ReadFile("/proc/self/cgroup").value_or(""), ReadFile); }

int UsableCpus() {
  const auto cpus = static_cast<int>(AllowedCpus().count());
  return std::min(cpus, CpuQuota().value_or(cpus));
}

}  // namespace tutti
