// The log-in to a token.
#pragma once

#include <node_api.h>

// logIn(module, session, file): {result?, unlocked?}. Logs the user in to a session of a PKCS#11 module that this process has loaded
// by the same path, with what is left to read in the open file, without its final line break. `result` is the CK_RV; there is none
// if the file holds no PIN. `unlocked` says why the PIN could have been swapped. Throws Error with the system's words.
napi_value logIn(napi_env env, napi_callback_info info);
