// Conversion of JavaScript values and errors for functions that call the system.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <string>

// False if the value is not a string.
inline bool textOf(napi_env env, napi_value value, std::string& text) {
  std::size_t length;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) return false;
  text.resize(length + 1);
  if (napi_get_value_string_utf8(env, value, text.data(), text.size(), &length) != napi_ok) return false;
  text.resize(length);
  return true;
}

// Throws an Error; returns null.
inline napi_value fail(napi_env env, const char* code, const char* message) {
  napi_throw_error(env, code, message);
  return nullptr;
}
