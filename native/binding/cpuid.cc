// What the processor can do, by its CPUID words, and the instructions that oneDNN may therefore use.
#include <cstdlib>

#include "binding/exports.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace temper {
namespace {

/** The CPUID words that the choice of instructions depends on. A leaf that does not exist is 0. */
struct CpuidWords {
  uint32_t leaf7Ebx = 0;
  uint32_t leaf7Ecx = 0;
  uint32_t leaf7Edx = 0;
  /** Register eax of subleaf 1. */
  uint32_t leaf7Sub1Eax = 0;
  /** Register eax of leaf 0x1D: the number of the last tile palette. */
  uint32_t leaf1dEax = 0;
  /** The registers that the operating system saves. */
  uint32_t xcr0 = 0;
};

struct CpuFeatures {
  bool avx2;
  bool avx512;
  bool vnni;
  bool bf16;
  bool fp16;
  /** Tiles can be configured and used. */
  bool amx;
  /** The highest level of oneDNN that does not crash, or null if oneDNN can choose by itself. */
  const char* isaLimit;
};

#if defined(__x86_64__)
CpuidWords readCpuid() {
  CpuidWords words;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  // __get_cpuid_count also compares with the highest leaf: beyond it, processors repeat another leaf.
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d) && (c & (1u << 27))) {
    uint32_t high;
    asm("xgetbv" : "=a"(words.xcr0), "=d"(high) : "c"(0));
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    words.leaf7Ebx = b;
    words.leaf7Ecx = c;
    words.leaf7Edx = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) words.leaf7Sub1Eax = a;
  }
  if (__get_cpuid_count(0x1d, 0, &a, &b, &c, &d)) words.leaf1dEax = a;
  return words;
}
#else
CpuidWords readCpuid() { return {}; }
#endif

/**
 * Some hypervisors report AMX but no tile palette. oneDNN then configures palette 0, and its first
 * tile instruction is illegal. So AMX is off unless there is a palette.
 */
CpuFeatures findFeatures(const CpuidWords& words) {
  auto has = [](uint32_t word, int bit) { return ((word >> bit) & 1) != 0; };
  // XCR0: bits 1 and 2 are AVX, 5 to 7 AVX-512, 17 and 18 tiles.
  bool savesAvx = (words.xcr0 & 0x6) == 0x6;
  bool savesAvx512 = savesAvx && (words.xcr0 & 0xe0) == 0xe0;
  CpuFeatures found{};
  found.avx2 = savesAvx && has(words.leaf7Ebx, 5);
  found.avx512 = savesAvx512 && has(words.leaf7Ebx, 16);
  found.vnni = found.avx512 && has(words.leaf7Ecx, 11);
  found.bf16 = found.avx512 && has(words.leaf7Sub1Eax, 5);
  found.fp16 = found.avx512 && has(words.leaf7Edx, 23);
  bool reportsAmx = has(words.leaf7Edx, 24);
  bool hasPalette = words.leaf1dEax > 0;
  found.amx = found.avx512 && reportsAmx && hasPalette && (words.xcr0 & 0x60000) == 0x60000;
  if (reportsAmx && !hasPalette)
    found.isaLimit = found.fp16 ? "AVX512_CORE_FP16" : found.bf16 ? "AVX512_CORE_BF16" : "AVX512_CORE_VNNI";
  return found;
}

/** The limit that oneDNN obeys: the current name of the variable counts before the old one. */
const char* readIsaLimit() {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  return limit ? limit : std::getenv("DNNL_MAX_CPU_ISA");
}

/** cpuid(): the words of this processor. */
napi_value cpuid(const Call& call) {
  CpuidWords words = readCpuid();
  napi_value object = newObject(call.env);
  set(call.env, object, "leaf7Ebx", fromDouble(call.env, words.leaf7Ebx));
  set(call.env, object, "leaf7Ecx", fromDouble(call.env, words.leaf7Ecx));
  set(call.env, object, "leaf7Edx", fromDouble(call.env, words.leaf7Edx));
  set(call.env, object, "leaf7Sub1Eax", fromDouble(call.env, words.leaf7Sub1Eax));
  set(call.env, object, "leaf1dEax", fromDouble(call.env, words.leaf1dEax));
  set(call.env, object, "xcr0", fromDouble(call.env, words.xcr0));
  return object;
}

uint32_t getWord(const Call& call, const char* name) {
  napi_value value;
  napi_get_named_property(call.env, call.at(0), name, &value);
  return static_cast<uint32_t>(toInteger(call.env, value));
}

/** cpuFeatures(words): what a processor with these words can do. */
napi_value cpuFeatures(const Call& call) {
  if (getKind(call.env, call.at(0)) != napi_object) throwMismatch(call.env, call.at(0), "CPUID words");
  CpuFeatures found = findFeatures({getWord(call, "leaf7Ebx"), getWord(call, "leaf7Ecx"), getWord(call, "leaf7Edx"),
                                    getWord(call, "leaf7Sub1Eax"), getWord(call, "leaf1dEax"), getWord(call, "xcr0")});
  napi_value object = newObject(call.env);
  set(call.env, object, "avx2", fromBoolean(call.env, found.avx2));
  set(call.env, object, "avx512", fromBoolean(call.env, found.avx512));
  set(call.env, object, "vnni", fromBoolean(call.env, found.vnni));
  set(call.env, object, "bf16", fromBoolean(call.env, found.bf16));
  set(call.env, object, "fp16", fromBoolean(call.env, found.fp16));
  set(call.env, object, "amx", fromBoolean(call.env, found.amx));
  set(call.env, object, "isaLimit", found.isaLimit ? fromText(call.env, found.isaLimit) : fromNull(call.env));
  return object;
}

/** isaLimit(): the level of oneDNN's instructions that is in force in this process, or null. */
napi_value isaLimit(const Call& call) {
  const char* limit = readIsaLimit();
  return limit ? fromText(call.env, limit) : fromNull(call.env);
}

}  // namespace

void limitInstructions() {
  const char* limit = findFeatures(readCpuid()).isaLimit;
  if (limit && !readIsaLimit()) setenv("ONEDNN_MAX_CPU_ISA", limit, 0);
}

void defineCpuid(napi_env env, napi_value exports) {
  define<cpuid>(env, exports, "cpuid");
  define<cpuFeatures>(env, exports, "cpuFeatures");
  define<isaLimit>(env, exports, "isaLimit");
}

}  // namespace temper
