// The memory limits of Linux control groups. A group is limited by its own limit and by those of all
// groups around it.
#pragma once
#include <cstddef>
#include <string>

namespace temper {

/**
 * Bytes that the control groups of a process still allow, or the largest number without a limit.
 * `membership` is a file like /proc/self/cgroup, and `root` is where the groups are mounted.
 */
size_t controlGroupMemory(const std::string& membership, const std::string& root);

}  // namespace temper
