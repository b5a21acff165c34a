// What the processor says about itself. src/tensor/cpu-features.ts decides which instructions oneDNN may therefore use.
#include <cstdlib>

#include "binding/exports.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace temper {
namespace {

/** cpuid(): the words that the choice of instructions depends on. A leaf that does not exist is 0. */
napi_value cpuid(const Call& call) {
  napi_value words = newObject(call.env);
  uint32_t a = 0, b = 0, c = 0, d = 0, xcr0 = 0;
  auto add = [&](const char* name, uint32_t word) { set(call.env, words, name, fromDouble(call.env, word)); };
#if defined(__x86_64__)
  // __get_cpuid_count also compares with the highest leaf: beyond it, processors repeat another leaf.
  auto read = [&](uint32_t leaf, uint32_t subleaf) {
    if (!__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d)) a = b = c = d = 0;
  };
  read(1, 0);
  if (c & (1u << 27)) {
    uint32_t high;
    asm("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  }
#else
  auto read = [](uint32_t, uint32_t) {};
#endif
  add("xcr0", xcr0);
  read(7, 0);
  add("leaf7Ebx", b);
  add("leaf7Ecx", c);
  add("leaf7Edx", d);
  if (a >= 1) read(7, 1);
  else a = 0;
  add("leaf7Sub1Eax", a);
  read(0x1d, 0);
  add("leaf1dEax", a);
  return words;
}

/** limitInstructions(level): oneDNN uses no higher one, unless the user has set a level. It reads it at its first product. */
napi_value limitInstructions(const Call& call) {
  setenv("ONEDNN_MAX_CPU_ISA", toText(call.env, call.at(0)).c_str(), 0);
  return nullptr;
}

}  // namespace

void defineCpuid(napi_env env, napi_value exports) {
  define<cpuid>(env, exports, "cpuid");
  define<limitInstructions>(env, exports, "limitInstructions");
}

}  // namespace temper
