// Ends this process if its main thread may be unable to.
#pragma once

#include <node_api.h>

// watch(fd): from now on, in a separate thread. Throws Error with the system's message.
napi_value watch(napi_env env, napi_callback_info info);

// endAt(ns): the process ends when the monotonic clock passes this number, a BigInt; 0 means no deadline.
napi_value endAt(napi_env env, napi_callback_info info);
