// The allocator of CPU tensors. It counts bytes, rejects sizes that exceed the available memory,
// and caches freed blocks for the next tensor of the same size.
#pragma once
#include <cstddef>

namespace temper {

struct MemoryCounts {
  size_t live;    // bytes in tensors
  size_t peak;    // highest value of live
  size_t cached;  // bytes cached for reuse
};

void installAllocator();
MemoryCounts memoryCounts();

/** Returns cached memory to the system if it has more than `limit` bytes. */
void emptyCpuCache(size_t limit = 0);

/** Bytes that can still be allocated: the smaller of the host's and the control group's. */
size_t availableMemory();

}  // namespace temper
