// Log-in to a token.
#pragma once

#include <node_api.h>

// logIn(user, sessions, file, salt, refused): {result?, accepted?, digest?, unfit?, unlocked?}. Logs the user
// in (CK_USER_TYPE) to each of these sessions of the loaded module, up to the first refusal. The PIN is the
// rest of the open file, without its final line break. `refused` are digests, 32 bytes each, of PINs that must
// not be presented. `result` is the CK_RV, and `accepted` whether the token took the PIN for a session before.
// Both are absent if no PIN was presented: then `digest` is the refused one, or `unfit` is the fault of the
// file. `digest` is also set for a PIN with which the log-in failed: scrypt with this salt. `unlocked` is the
// reason why the PIN could have been swapped to disk. Throws Error with the system's message.
napi_value logIn(napi_env env, napi_callback_info info);
