// The functions that add each part of the addon to its exports.
#pragma once
#include "binding/js.h"

namespace temper {

void defineDispatch(napi_env env, napi_value exports);
void defineCpuid(napi_env env, napi_value exports);
void defineTensors(napi_env env, napi_value exports);
void defineAutograd(napi_env env, napi_value exports);
void defineRuntime(napi_env env, napi_value exports);
void defineCrashReports(napi_env env, napi_value exports);
void defineJitter(napi_env env, napi_value exports);
void defineDropout(napi_env env, napi_value exports);
void defineCuda(napi_env env, napi_value exports);
void defineKernels(napi_env env, napi_value exports);
void defineStore(napi_env env, napi_value exports);
void defineProcessGroup(napi_env env, napi_value exports);
void defineNvrtc(napi_env env, napi_value exports);

}  // namespace temper
