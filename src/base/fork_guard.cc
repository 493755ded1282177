#include "src/base/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

namespace tutti {
namespace {

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

ForkGuard::ForkGuard() : creator_(getpid()) {
  void* page = mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, PageBytes(), MADV_WIPEONFORK) != 0) {
    munmap(page, PageBytes());
    return;
  }
  page_ = static_cast<volatile int*>(page);
  *page_ = 1;
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) munmap(const_cast<int*>(page_), PageBytes());
}

}  // namespace tutti
