// Conversion of JavaScript values.
#pragma once

#include <node_api.h>

#include <vector>

#include "stream.h"

namespace pdfseal {

// Text in Latin-1; null if there is an exception.
napi_value text(napi_env env, const char* from, std::size_t length = NAPI_AUTO_LENGTH);

// Throws a TypeError; returns null.
napi_value fail(napi_env env, const char* message);

// {state?: Uint8Array, chunks: Uint8Array[], last: boolean}[]. False after an exception. `memory` receives an
// array that holds every chunk: while it lives, so do their bytes.
bool readPieces(napi_env env, napi_value list, std::vector<Piece>& pieces, napi_value& memory);

// ({state: Uint8Array} | {sha256: string, sha512: string})[]; null if there is an exception.
napi_value hashedOf(napi_env env, const std::vector<Piece>& pieces);

}  // namespace pdfseal
