// The log-in to a token.
#pragma once

#include <node_api.h>

// logIn(module, session, file, salt, refused): {result?, digest?, unfit?, unlocked?}. Logs the user in to a session of a PKCS#11 module
// that this process has loaded by the same path, with what is left to read in the open file, without its final line break. `refused`
// are digests, 32 bytes each, of PINs that are not presented. `result` is the CK_RV; there is none if nothing was presented: `digest`
// is then the refused one, or `unfit` says what is wrong with the file. `digest` is also that of a PIN with which the log-in failed: scrypt
// with this salt. `unlocked` says why the PIN could have been swapped. Throws Error with the system's words.
napi_value logIn(napi_env env, napi_callback_info info);
