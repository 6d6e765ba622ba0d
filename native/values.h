// JavaScript values in and out.
#pragma once

#include <node_api.h>

#include <vector>

#include "stream.h"

namespace pdfseal {

// Text in Latin-1; null when there is an exception.
napi_value text(napi_env env, const char* from, std::size_t length = NAPI_AUTO_LENGTH);

// Throws a TypeError; null.
napi_value fail(napi_env env, const char* message);

// {state?: Uint8Array, chunks: Uint8Array[], last: boolean}[]. False after an exception. `memory` gets an array
// that holds every chunk: as long as it lives, so do their bytes.
bool readPieces(napi_env env, napi_value list, std::vector<Piece>& pieces, napi_value& memory);

// ({state: Uint8Array} | {sha256: string, sha512: string})[]; null when there is an exception.
napi_value hashedOf(napi_env env, const std::vector<Piece>& pieces);

}  // namespace pdfseal
