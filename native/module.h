// The vendor's PKCS#11 module: loaded once, with one list of its functions.
#pragma once

#include <node_api.h>
#include <pkcs11/pkcs11.h>

// Null if no module is loaded.
CK_FUNCTION_LIST* moduleFunctions();

// loadModule(path). Throws Error with the reason of the dynamic linker, or with the return value of
// C_GetFunctionList.
napi_value loadModule(napi_env env, napi_callback_info info);

// initialize(flags, parameters?): the CK_RV of C_Initialize of the loaded module.
napi_value initialize(napi_env env, napi_callback_info info);
