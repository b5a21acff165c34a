// Reads the memory limits of Linux control groups, versions 1 and 2.
#include "binding/control-group.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace temper {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

/** The names of the files in version 1 and version 2 of control groups. */
struct FileNames {
  const char *limit, *used;
};
constexpr FileNames kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes"};
constexpr FileNames kVersion2{"/memory.max", "/memory.current"};

size_t readNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word) || word == "max") return kUnlimited;
  return std::strtoull(word.c_str(), nullptr, 10);
}

/** File memory of a control group, which the kernel reclaims when other memory is needed. */
size_t readReclaimableBytes(const std::string& path) {
  std::ifstream file(path);
  size_t sum = 0, value = 0;
  for (std::string key; file >> key >> value;)
    if (key == "inactive_file" || key == "active_file" || key == "slab_reclaimable") sum += value;
  return sum;
}

size_t readRemaining(const std::string& group, const FileNames& names) {
  size_t limit = readNumber(group + names.limit);
  if (limit == kUnlimited) return kUnlimited;
  size_t used = readNumber(group + names.used);
  if (used == kUnlimited) return limit;
  return (limit > used ? limit - used : 0) + readReclaimableBytes(group + "/memory.stat");
}

/** The smallest remainder of a group and of every group around it. */
size_t readNested(const std::string& root, std::string path, const FileNames& names) {
  size_t remaining = readRemaining(root, names);
  while (!path.empty() && path != "/") {
    remaining = std::min(remaining, readRemaining(root + path, names));
    path.erase(path.rfind('/'));
  }
  return remaining;
}

}  // namespace

size_t controlGroupMemory(const std::string& membership, const std::string& root) {
  // Without a list of groups, the group at the root still counts.
  size_t remaining = readRemaining(root, kVersion2);
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    // hierarchy:controllers:path, where version 2 has no controllers
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    if (controllers == ",,") remaining = std::min(remaining, readNested(root, path, kVersion2));
    else if (controllers.find(",memory,") != std::string::npos)
      remaining = std::min(remaining, readNested(root + "/memory", path, kVersion1));
  }
  return remaining;
}

}  // namespace temper
