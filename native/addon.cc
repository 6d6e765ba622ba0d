// The add-on's face to JavaScript (Node-API 8). Everything it keeps belongs to one environment, so every
// worker thread has its own and may end at any time.
#include <node_api.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels.h"
#include "self_test.h"
#include "stream.h"

namespace pdfseal {
namespace {

struct Instance {
  const Kernel* kernel = &fastestKernel();
};

Instance& instanceOf(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return *static_cast<Instance*>(data);
}

napi_value fail(napi_env env, const char* message) {
  napi_throw_type_error(env, "ERR_INVALID_ARG_VALUE", message);
  return nullptr;
}

napi_value text(napi_env env, const char* from, std::size_t length = NAPI_AUTO_LENGTH) {
  napi_value value;
  return napi_create_string_latin1(env, from, length, &value) == napi_ok ? value : nullptr;
}

template <std::size_t size>
napi_value hex(napi_env env, const std::uint8_t (&bytes)[size]) {
  char digits[2 * size];
  for (std::size_t i = 0; i < size; i++) {
    digits[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
    digits[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
  }
  return text(env, digits, sizeof digits);
}

bool isUndefined(napi_env env, napi_value value) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) == napi_ok && type == napi_undefined;
}

bool bytesOf(napi_env env, napi_value value, std::span<const std::uint8_t>& bytes) {
  bool isArray = false;
  napi_typedarray_type type;
  std::size_t length;
  void* data;
  if (napi_is_typedarray(env, value, &isArray) != napi_ok || !isArray) return false;
  if (napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr) != napi_ok) return false;
  if (type != napi_uint8_array) return false;
  bytes = {static_cast<const std::uint8_t*>(data), length};
  return true;
}

// The values of one piece as JavaScript gave them.
struct Given {
  napi_value state, bytes, last;
};

bool readGiven(napi_env env, napi_value list, std::uint32_t index, Given& given) {
  napi_value piece;
  return napi_get_element(env, list, index, &piece) == napi_ok &&
         napi_get_named_property(env, piece, "state", &given.state) == napi_ok &&
         napi_get_named_property(env, piece, "bytes", &given.bytes) == napi_ok &&
         napi_get_named_property(env, piece, "last", &given.last) == napi_ok;
}

bool readState(napi_env env, napi_value value, State& state) {
  if (isUndefined(env, value)) {
    state = State::initial();
    return true;
  }
  std::span<const std::uint8_t> bytes;
  if (!bytesOf(env, value, bytes) || bytes.size() != sizeof state) return false;
  std::memcpy(&state, bytes.data(), sizeof state);
  return state.valid();
}

// Runs no JavaScript, so that no getter can take bytes away that were found before.
const char* readPiece(napi_env env, const Given& given, Piece& piece) {
  if (!readState(env, given.state, piece.state))
    return "state is not one that this version of the add-on returned";
  if (!bytesOf(env, given.bytes, piece.bytes)) return "bytes is not a Uint8Array";
  if (napi_get_value_bool(env, given.last, &piece.last) != napi_ok) return "last is not a boolean";
  return nullptr;
}

napi_value copyOf(napi_env env, const State& state) {
  napi_value memory, bytes;
  void* data;
  if (napi_create_arraybuffer(env, sizeof state, &data, &memory) != napi_ok) return nullptr;
  std::memcpy(data, &state, sizeof state);
  const napi_status made = napi_create_typedarray(env, napi_uint8_array, sizeof state, memory, 0, &bytes);
  return made == napi_ok ? bytes : nullptr;
}

bool set(napi_env env, napi_value object, const char* name, napi_value value) {
  return value != nullptr && napi_set_named_property(env, object, name, value) == napi_ok;
}

napi_value hashed(napi_env env, const Piece& piece) {
  napi_value result;
  if (napi_create_object(env, &result) != napi_ok) return nullptr;
  const bool complete = piece.last ? set(env, result, "sha256", hex(env, piece.digests.sha256)) &&
                                         set(env, result, "sha512", hex(env, piece.digests.sha512))
                                   : set(env, result, "state", copyOf(env, piece.state));
  return complete ? result : nullptr;
}

// hash(pieces: {state?: Uint8Array, bytes: Uint8Array, last: boolean}[]): ({state} | {sha256, sha512})[]
napi_value hash(napi_env env, napi_callback_info info) {
  std::size_t count = 1;
  napi_value list;
  std::uint32_t length;
  napi_get_cb_info(env, info, &count, &list, nullptr, nullptr);
  if (napi_get_array_length(env, list, &length) != napi_ok) return fail(env, "pieces is not an array");

  std::vector<Given> given(length);
  std::vector<Piece> pieces(length);
  for (std::uint32_t i = 0; i < length; i++) {
    if (!readGiven(env, list, i, given[i])) return fail(env, "a piece is not an object");
  }
  for (std::uint32_t i = 0; i < length; i++) {
    if (const char* problem = readPiece(env, given[i], pieces[i])) return fail(env, problem);
  }

  hashPieces(*instanceOf(env).kernel, pieces);

  napi_value results;
  if (napi_create_array_with_length(env, length, &results) != napi_ok) return nullptr;
  for (std::uint32_t i = 0; i < length; i++) {
    napi_value result = hashed(env, pieces[i]);
    if (result == nullptr || napi_set_element(env, results, i, result) != napi_ok) return nullptr;
  }
  return results;
}

// kernels(): the names of those that run on this processor, slowest first
napi_value kernels(napi_env env, napi_callback_info) {
  napi_value names;
  std::uint32_t i = 0;
  napi_create_array(env, &names);
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported()) napi_set_element(env, names, i++, text(env, kernel->name));
  }
  return names;
}

// kernel(): the name of the one in use
napi_value kernelInUse(napi_env env, napi_callback_info) { return text(env, instanceOf(env).kernel->name); }

// force(name): uses it from now on in this environment
napi_value force(napi_env env, napi_callback_info info) {
  std::size_t count = 1, length = 0;
  napi_value value;
  char name[32];
  napi_get_cb_info(env, info, &count, &value, nullptr, nullptr);
  if (napi_get_value_string_latin1(env, value, name, sizeof name, &length) != napi_ok)
    return fail(env, "name is not a string");
  for (const Kernel* kernel : compiledKernels()) {
    if (kernel->supported() && std::strcmp(kernel->name, name) == 0) {
      instanceOf(env).kernel = kernel;
      return nullptr;
    }
  }
  return fail(env, "no kernel of this name runs on this processor");
}

// selfTest(): whether the kernel in use knows the known answers
napi_value selfTestInUse(napi_env env, napi_callback_info) {
  napi_value good;
  napi_get_boolean(env, selfTest(*instanceOf(env).kernel), &good);
  return good;
}

}  // namespace
}  // namespace pdfseal

NAPI_MODULE_INIT() {
  using namespace pdfseal;
  auto* instance = new Instance();
  auto drop = [](napi_env, void* data, void*) { delete static_cast<Instance*>(data); };
  if (napi_set_instance_data(env, instance, drop, nullptr) != napi_ok) {
    delete instance;
    return nullptr;
  }
  constexpr struct {
    const char* name;
    napi_callback function;
  } functions[] = {{"hash", hash},
                   {"kernels", kernels},
                   {"kernel", kernelInUse},
                   {"force", force},
                   {"selfTest", selfTestInUse}};
  for (const auto& [name, function] : functions) {
    napi_value value;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value) != napi_ok)
      return nullptr;
    if (napi_set_named_property(env, exports, name, value) != napi_ok) return nullptr;
  }
  return exports;
}
