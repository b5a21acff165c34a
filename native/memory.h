// Memory of CPU tensors: counted, refused beyond what the machine has, and kept for the next tensor of its size.
#pragma once
#include <cstddef>

namespace temper {

struct MemoryCounts {
  size_t live;    // bytes in tensors
  size_t peak;    // the most there ever were
  size_t cached;  // bytes kept for reuse
};

void installAllocator();
MemoryCounts memoryCounts();

/** Gives the cache back to the system. */
void dropCachedMemory();

/** Bytes that can still be had: the machine's, or the control group's where that is less. */
size_t availableMemory();

}  // namespace temper
