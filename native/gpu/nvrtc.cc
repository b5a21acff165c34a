// Compiles CUDA kernels at run time with NVRTC, which comes with the CUDA build of libtorch. This
// file needs no CUDA header, so that kernels can be compiled on a host without a GPU too.
#include <dlfcn.h>

#include "binding/exports.h"

namespace temper {
namespace {

/** The functions of NVRTC that we use, with the types of its stable C interface. */
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char* source, const char* name, int, const char* const*, const char* const*);
  int (*compile)(Program, int count, const char* const* options);
  int (*logSize)(Program, size_t*);
  int (*log)(Program, char*);
  int (*binarySize)(Program, size_t*);
  int (*binary)(Program, char*);
  int (*destroy)(Program*);
};

void* openLibrary(const std::string& path, int flags) {
  void* library = dlopen(path.c_str(), flags);
  if (!library) throw std::runtime_error(std::string("NVRTC does not load: ") + dlerror());
  return library;
}

template <typename F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) throw std::runtime_error(std::string("NVRTC has no function ") + name);
}

/** Loads NVRTC once. `builtins` is its second library, which it would not find by itself. */
const Nvrtc& loadNvrtc(const std::string& path, const std::string& builtins) {
  static Nvrtc nvrtc;
  static bool loaded = false;
  if (loaded) return nvrtc;
  openLibrary(builtins, RTLD_NOW | RTLD_GLOBAL);
  void* library = openLibrary(path, RTLD_NOW | RTLD_LOCAL);
  find(library, "nvrtcCreateProgram", nvrtc.create);
  find(library, "nvrtcCompileProgram", nvrtc.compile);
  find(library, "nvrtcGetProgramLogSize", nvrtc.logSize);
  find(library, "nvrtcGetProgramLog", nvrtc.log);
  find(library, "nvrtcGetCUBINSize", nvrtc.binarySize);
  find(library, "nvrtcGetCUBIN", nvrtc.binary);
  find(library, "nvrtcDestroyProgram", nvrtc.destroy);
  loaded = true;
  return nvrtc;
}

/** compileKernels(nvrtc, builtins, source, name, options): returns the machine code for one GPU. */
napi_value compileKernels(const Call& call) {
  napi_env env = call.env;
  const Nvrtc& nvrtc = loadNvrtc(toText(env, call.at(0)), toText(env, call.at(1)));
  std::string source = toText(env, call.at(2)), name = toText(env, call.at(3));
  std::vector<std::string> options;
  uint32_t length = arrayLength(env, call.at(4), "an array of texts");
  for (uint32_t i = 0; i < length; i++) options.push_back(toText(env, element(env, call.at(4), i)));
  std::vector<const char*> pointers;
  for (const auto& option : options) pointers.push_back(option.c_str());
  Nvrtc::Program program = nullptr;
  if (nvrtc.create(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr) != 0)
    throw std::runtime_error("NVRTC could not read " + name);
  std::string binary;
  bool compiled = nvrtc.compile(program, static_cast<int>(pointers.size()), pointers.data()) == 0;
  size_t size = 0;
  if (compiled) {
    nvrtc.binarySize(program, &size);
    binary.resize(size);
    nvrtc.binary(program, binary.data());
  } else {
    nvrtc.logSize(program, &size);
    binary.resize(size);
    nvrtc.log(program, binary.data());
  }
  nvrtc.destroy(&program);
  if (!compiled) throw std::runtime_error("NVRTC could not compile " + name + ": " + binary);
  void* data;
  napi_value buffer;
  if (napi_create_arraybuffer(env, binary.size(), &data, &buffer) != napi_ok)
    throw std::runtime_error("no memory for a compiled kernel");
  std::copy(binary.begin(), binary.end(), static_cast<char*>(data));
  return buffer;
}

}  // namespace

void defineNvrtc(napi_env env, napi_value exports) { define<compileKernels>(env, exports, "compileKernels"); }

}  // namespace temper
