// The allocator of CPU tensors, with its cache of freed blocks.
#include "binding/memory.h"

#include "binding/control-group.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace temper {
namespace {

// A training step allocates and frees the same few hundred sizes again and again. Reusing a block
// avoids the page faults of fresh memory and heap fragmentation.
constexpr size_t kAlignment = 64;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kSmall = std::numeric_limits<size_t>::max();  // exact sizes and no reuse, so that every mistake shows
#else
constexpr size_t kSmall = 64 << 10;           // malloc is as fast below this size
#endif
constexpr size_t kHuge = 4 << 20;             // request huge pages from this size on
constexpr size_t kChecked = 64 << 20;         // check the available memory from this size on
constexpr size_t kMinCache = size_t(128) << 20;  // a cache up to this size is never cut down

// A freed block, and when it was freed.
struct FreeBlock {
  void* base;
  uint64_t time;
};

struct Cache {
  std::mutex mutex;
  std::map<size_t, std::deque<FreeBlock>> blocks;
  MemoryCounts counts{0, 0, 0};
  uint64_t time = 0;
};

// Never destroyed: a thread of Gloo may free a tensor while the process exits.
Cache& cache() {
  static auto* instance = new Cache();
  return *instance;
}

/**
 * Rounds up to an eighth of the power of two, so that a slightly longer batch can reuse the same
 * blocks.
 */
size_t roundBlockSize(size_t bytes) {
  size_t wanted = bytes + kAlignment;
  if (wanted < kSmall) return wanted;
  size_t step = size_t(1) << (63 - __builtin_clzll(wanted) - 3);
  return (wanted + step - 1) / step * step;
}

void releaseBlock(void* data) {
  if (!data) return;
  char* base = static_cast<char*>(data) - kAlignment;
  size_t size;
  std::memcpy(&size, base, sizeof size);
  {
    auto& [mutex, blocks, counts, time] = cache();
    std::lock_guard<std::mutex> lock(mutex);
    counts.live -= size;
    if (size >= kSmall) {
      blocks[size].push_back({base, time++});
      counts.cached += size;
      return;
    }
  }
  std::free(base);
}

/**
 * Frees the blocks that were not used for longest. Batches of other lengths need other sizes, so that a cache
 * without a limit grows to a multiple of what is in use at once.
 */
void evictBlocks() {
  auto& [mutex, blocks, counts, time] = cache();
  size_t limit = std::max(kMinCache, counts.peak + counts.peak / 8);
  while (counts.cached > 0 && counts.live + counts.cached > limit) {
    auto oldest = blocks.begin();
    for (auto each = blocks.begin(); each != blocks.end(); ++each)
      if (each->second.front().time < oldest->second.front().time) oldest = each;
    std::free(oldest->second.front().base);
    counts.cached -= oldest->first;
    oldest->second.pop_front();
    if (oldest->second.empty()) blocks.erase(oldest);
  }
}

void* allocateBlock(size_t bytes) {
  size_t size = roundBlockSize(bytes);
  auto& mutex = cache().mutex;
  auto& counts = cache().counts;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto& blocks = cache().blocks;
    // A block may be a quarter too large. Small ones are not cached.
    auto found = size < kSmall ? blocks.end() : blocks.lower_bound(size);
    if (found != blocks.end() && found->first <= size + size / 4) {
      char* base = static_cast<char*>(found->second.back().base);
      counts.cached -= found->first;
      counts.live += found->first;
      counts.peak = std::max(counts.peak, counts.live);
      found->second.pop_back();
      if (found->second.empty()) blocks.erase(found);
      return base + kAlignment;
    }
    counts.live += size;
    if (size >= kSmall) evictBlocks();
  }
  auto fail = [&](const std::string& message) {
    std::lock_guard<std::mutex> lock(mutex);
    counts.live -= size;
    TORCH_CHECK(false, message);
  };
  auto formatGiB = [](size_t n) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(n) / (size_t(1) << 30));
    return std::string(text);
  };
  if (size >= kChecked && size > availableMemory()) {
    emptyCpuCache();
    if (size > availableMemory())
      fail("a tensor of " + formatGiB(bytes) + " does not fit: " + formatGiB(availableMemory()) +
           " of memory are free");
  }
  void* base = nullptr;
  if (posix_memalign(&base, size >= kHuge ? size_t(2) << 20 : kAlignment, size) != 0)
    fail("no memory for a tensor of " + formatGiB(bytes));
#ifdef MADV_HUGEPAGE
  if (size >= kHuge) madvise(base, size, MADV_HUGEPAGE);
#endif
  {
    // Only now: a refused request must not count as a peak.
    std::lock_guard<std::mutex> lock(mutex);
    counts.peak = std::max(counts.peak, counts.live);
  }
  std::memcpy(base, &size, sizeof size);
  return static_cast<char*>(base) + kAlignment;
}

struct CountingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &releaseBlock, at::Device(at::kCPU)};
    TORCH_CHECK(bytes < (size_t(1) << 60), "a tensor of ", bytes, " bytes does not fit");
    void* data = allocateBlock(bytes);
    return {data, data, &releaseBlock, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &releaseBlock; }
  void copy_data(void* target, const void* source, std::size_t count) const override {
    std::memcpy(target, source, count);
  }
};

}  // namespace

void installAllocator() {
#ifdef __GLIBC__
  // Blocks from this size on go back to the system when they are freed, in the whole process.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
  static auto* allocator = new CountingAllocator();
  c10::SetCPUAllocator(allocator, 100);
}

MemoryCounts memoryCounts() {
  std::lock_guard<std::mutex> lock(cache().mutex);
  return cache().counts;
}

void emptyCpuCache(size_t limit) {
  auto& [mutex, blocks, counts, time] = cache();
  std::lock_guard<std::mutex> lock(mutex);
  if (counts.cached <= limit) return;
  for (auto& [size, freed] : blocks)
    for (const FreeBlock& block : freed) std::free(block.base);
  blocks.clear();
  counts.cached = 0;
}

size_t availableMemory() {
  size_t available = std::numeric_limits<size_t>::max();
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    if (key == "MemAvailable:") {
      size_t kibibytes = 0;
      file >> kibibytes;
      available = kibibytes << 10;
      break;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::min(available, controlGroupMemory("/proc/self/cgroup", "/sys/fs/cgroup"));
}

}  // namespace temper
