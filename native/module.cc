// This add-on is the PKCS#11 module that the binding for JavaScript loads: C_GetFunctionList below gives it the
// functions of the vendor's module. The log-in uses the same list. Some modules (p11-kit) make another
// instance for each call of C_GetFunctionList, which would know nothing of the binding's sessions.
#include "module.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "system.h"

namespace {

CK_FUNCTION_LIST* functions = nullptr;

// NSS has one member more than the standard has, in front of pReserved (CK_C_INITIALIZE_ARGS in its pkcs11t.h).
// Other modules that take parameters find them in the same place.
struct InitializeArguments {
  CK_C_INITIALIZE_ARGS standard{};
  void* reserved = nullptr;
};

}  // namespace

CK_FUNCTION_LIST* moduleFunctions() { return functions; }

extern "C" __attribute__((visibility("default"))) CK_RV C_GetFunctionList(CK_FUNCTION_LIST_PTR_PTR list) {
  if (list == nullptr) return CKR_ARGUMENTS_BAD;
  *list = functions;
  return functions == nullptr ? CKR_CRYPTOKI_NOT_INITIALIZED : CKR_OK;
}

napi_value loadModule(napi_env env, napi_callback_info info) {
  std::size_t count = 1;
  napi_value argument;
  std::string path;
  if (napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr) != napi_ok || count != 1 ||
      !textOf(env, argument, path))
    return fail(env, "ERR_INVALID_ARG_TYPE", "loadModule takes a path");
  if (functions != nullptr) return fail(env, "ERR_MODULE", "this process has a PKCS#11 module already");
  // Never unloaded: modules have threads that would go on.
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return fail(env, "ERR_MODULE", dlerror());
  const auto getList = reinterpret_cast<CK_C_GetFunctionList>(dlsym(library, "C_GetFunctionList"));
  if (getList == nullptr) return fail(env, "ERR_MODULE", dlerror());
  CK_FUNCTION_LIST* list = nullptr;
  const CK_RV result = getList(&list);
  if (result == CKR_OK && list != nullptr) {
    functions = list;
    return nullptr;
  }
  const std::string problem = "C_GetFunctionList returned " + std::to_string(result);
  return fail(env, "ERR_MODULE", problem.c_str());
}

napi_value initialize(napi_env env, napi_callback_info info) {
  std::size_t count = 2;
  napi_value arguments[2];
  std::uint32_t flags;
  std::string parameters;
  napi_valuetype type;
  // An argument that was not given is undefined.
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok ||
      napi_get_value_uint32(env, arguments[0], &flags) != napi_ok ||
      napi_typeof(env, arguments[1], &type) != napi_ok ||
      (type != napi_undefined && !textOf(env, arguments[1], parameters)))
    return fail(env, "ERR_INVALID_ARG_TYPE", "initialize takes flags and parameters");
  if (functions == nullptr) return fail(env, "ERR_MODULE", "no PKCS#11 module is loaded");
  InitializeArguments given;
  given.standard.flags = flags;
  if (type != napi_undefined) given.standard.pReserved = parameters.data();
  napi_value result;
  return napi_create_double(env, static_cast<double>(functions->C_Initialize(&given)), &result) == napi_ok ? result
                                                                                                           : nullptr;
}
