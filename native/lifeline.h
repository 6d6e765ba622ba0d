// Ends this process when its main thread may be unable to.
#pragma once

#include <node_api.h>

// watch(fd): from now on, in a thread of its own. Throws Error with the system's words.
napi_value watch(napi_env env, napi_callback_info info);

// endAt(ns): the process ends once the monotonic clock passes this number, a BigInt; with 0 it does not.
napi_value endAt(napi_env env, napi_callback_info info);
