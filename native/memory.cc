#include "memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/mman.h>
#include <torch/version.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace temper {
namespace {

// A training step makes and drops the same few hundred sizes again and again. Handing a block straight back spares the page
// faults of fresh memory, and the heap cannot fragment.
constexpr size_t kAlignment = 64;
constexpr size_t kSmall = 64 << 10;           // below this malloc is as good
constexpr size_t kHuge = 4 << 20;             // from here on ask for huge pages
constexpr size_t kChecked = 64 << 20;         // from here on look whether the machine has it
constexpr size_t kCacheLimit = size_t(2) << 30;

std::mutex mutex;
std::unordered_map<size_t, std::vector<void*>> kept;
MemoryCounts counts{0, 0, 0};

size_t readNumber(const char* path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word) || word == "max") return std::numeric_limits<size_t>::max();
  return std::strtoull(word.c_str(), nullptr, 10);
}

/** What a control group holds of files: the kernel gives it up when memory is wanted. */
size_t reclaimable(const char* path) {
  std::ifstream file(path);
  size_t sum = 0, value = 0;
  for (std::string key; file >> key >> value;)
    if (key == "inactive_file" || key == "active_file" || key == "slab_reclaimable") sum += value;
  return sum;
}

/** Blocks come in steps of an eighth of their power of two, so that a batch a little longer finds the last one's blocks. */
size_t blockSize(size_t bytes) {
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
    std::lock_guard<std::mutex> lock(mutex);
    counts.live -= size;
    if (size >= kSmall && counts.cached + size <= kCacheLimit) {
      kept[size].push_back(base);
      counts.cached += size;
      return;
    }
  }
  std::free(base);
}

void* takeBlock(size_t bytes) {
  size_t size = blockSize(bytes);
  {
    std::lock_guard<std::mutex> lock(mutex);
    counts.live += size;
    if (counts.live > counts.peak) counts.peak = counts.live;
    auto found = kept.find(size);
    if (found != kept.end() && !found->second.empty()) {
      char* base = static_cast<char*>(found->second.back());
      found->second.pop_back();
      counts.cached -= size;
      return base + kAlignment;
    }
  }
  auto refuse = [&](const std::string& message) {
    std::lock_guard<std::mutex> lock(mutex);
    counts.live -= size;
    TORCH_CHECK(false, message);
  };
  auto gibibytes = [](size_t n) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(n) / (size_t(1) << 30));
    return std::string(text);
  };
  if (size >= kChecked && size > availableMemory()) {
    dropCachedMemory();
    if (size > availableMemory()) refuse("a tensor of " + gibibytes(bytes) + " does not fit: " + gibibytes(availableMemory()) + " of memory are free");
  }
  void* base = nullptr;
  if (posix_memalign(&base, size >= kHuge ? size_t(2) << 20 : kAlignment, size) != 0) refuse("no memory for a tensor of " + gibibytes(bytes));
  if (size >= kHuge) madvise(base, size, MADV_HUGEPAGE);
  std::memcpy(base, &size, sizeof size);
  return static_cast<char*>(base) + kAlignment;
}

struct CountingAllocator final : c10::Allocator {
#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(size_t bytes) override {
#else
  c10::DataPtr allocate(size_t bytes) const override {
#endif
    if (bytes == 0) return {nullptr, nullptr, &releaseBlock, at::Device(at::kCPU)};
    TORCH_CHECK(bytes < (size_t(1) << 60), "a tensor of ", bytes, " bytes does not fit");
    void* data = takeBlock(bytes);
    return {data, data, &releaseBlock, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &releaseBlock; }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  void copy_data(void* target, const void* source, std::size_t count) const override { std::memcpy(target, source, count); }
#endif
};

}  // namespace

void installAllocator() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  static auto* allocator = new CountingAllocator();
  c10::SetCPUAllocator(allocator, 100);
}

MemoryCounts memoryCounts() {
  std::lock_guard<std::mutex> lock(mutex);
  return counts;
}

void dropCachedMemory() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [size, blocks] : kept)
    for (void* base : blocks) std::free(base);
  kept.clear();
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
  size_t limit = readNumber("/sys/fs/cgroup/memory.max");
  if (limit != std::numeric_limits<size_t>::max()) {
    size_t used = readNumber("/sys/fs/cgroup/memory.current");
    size_t left = (limit > used ? limit - used : 0) + reclaimable("/sys/fs/cgroup/memory.stat");
    if (left < available) available = left;
  }
  return available;
}

}  // namespace temper
