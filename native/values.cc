#include "values.h"

#include <cstring>
#include <span>

namespace pdfseal {
namespace {

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

// The JavaScript values of one piece.
struct Given {
  napi_value state, last;
  std::vector<napi_value> chunks;
};

bool readChunks(napi_env env, napi_value piece, std::vector<napi_value>& chunks) {
  napi_value list;
  std::uint32_t count;
  if (napi_get_named_property(env, piece, "chunks", &list) != napi_ok ||
      napi_get_array_length(env, list, &count) != napi_ok)
    return false;
  chunks.resize(count);
  for (std::uint32_t i = 0; i < count; i++)
    if (napi_get_element(env, list, i, &chunks[i]) != napi_ok) return false;
  return true;
}

bool readGiven(napi_env env, napi_value list, std::uint32_t index, Given& given) {
  napi_value piece;
  return napi_get_element(env, list, index, &piece) == napi_ok &&
         napi_get_named_property(env, piece, "state", &given.state) == napi_ok &&
         readChunks(env, piece, given.chunks) &&
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

// Does not run JavaScript, so that a getter cannot remove bytes that were found before.
const char* readPiece(napi_env env, const Given& given, Piece& piece) {
  if (!readState(env, given.state, piece.state))
    return "state is not one that this version of the add-on returned";
  for (napi_value chunk : given.chunks) {
    std::span<const std::uint8_t> bytes;
    if (!bytesOf(env, chunk, bytes)) return "a chunk is not a Uint8Array";
    piece.chunks.push_back(bytes);
  }
  if (napi_get_value_bool(env, given.last, &piece.last) != napi_ok) return "last is not a boolean";
  return nullptr;
}

// JavaScript could change any array that it can reach; this one is private.
bool hold(napi_env env, const std::vector<Given>& given, napi_value& memory) {
  std::uint32_t count = 0;
  if (napi_create_array(env, &memory) != napi_ok) return false;
  for (const Given& one : given)
    for (napi_value chunk : one.chunks)
      if (napi_set_element(env, memory, count++, chunk) != napi_ok) return false;
  return true;
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

}  // namespace

napi_value text(napi_env env, const char* from, std::size_t length) {
  napi_value value;
  return napi_create_string_latin1(env, from, length, &value) == napi_ok ? value : nullptr;
}

napi_value fail(napi_env env, const char* message) {
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (!pending) napi_throw_type_error(env, "ERR_INVALID_ARG_VALUE", message);
  return nullptr;
}

bool readPieces(napi_env env, napi_value list, std::vector<Piece>& pieces, napi_value& memory) {
  std::uint32_t length;
  if (napi_get_array_length(env, list, &length) != napi_ok)
    return fail(env, "pieces is not an array") != nullptr;
  std::vector<Given> given(length);
  for (std::uint32_t i = 0; i < length; i++)
    if (!readGiven(env, list, i, given[i])) return fail(env, "a piece is not an object with chunks") != nullptr;
  pieces.resize(length);
  for (std::uint32_t i = 0; i < length; i++)
    if (const char* problem = readPiece(env, given[i], pieces[i])) return fail(env, problem) != nullptr;
  return hold(env, given, memory);
}

napi_value hashedOf(napi_env env, const std::vector<Piece>& pieces) {
  napi_value results;
  if (napi_create_array_with_length(env, pieces.size(), &results) != napi_ok) return nullptr;
  for (std::uint32_t i = 0; i < pieces.size(); i++) {
    napi_value result = hashed(env, pieces[i]);
    if (result == nullptr || napi_set_element(env, results, i, result) != napi_ok) return nullptr;
  }
  return results;
}

}  // namespace pdfseal
