#include "exports.h"

static napi_value initialize(napi_env env, napi_value exports) {
  return temper::guarded(env, [&] {
    temper::defineDispatch(env, exports);
    temper::defineTensors(env, exports);
    temper::defineAutograd(env, exports);
    temper::defineRuntime(env, exports);
    temper::defineDropout(env, exports);
    temper::defineCuda(env, exports);
    return exports;
  });
}

NAPI_MODULE(temper, initialize)
