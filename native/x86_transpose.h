// Loads one block per lane and turns rows (streams) into columns (words), bytes swapped to host order.
// Included below the #pragma that names the instruction set.
#pragma once

#include <immintrin.h>

#include "sha2.h"

namespace pdfseal {
namespace {

PDFSEAL_INLINE __m256i load256(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

PDFSEAL_INLINE __m128i byteSwap32() { return _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203); }
PDFSEAL_INLINE __m128i byteSwap64() { return _mm_set_epi64x(0x08090a0b0c0d0e0f, 0x0001020304050607); }

// Eight 32-bit words of eight streams.
PDFSEAL_INLINE void transpose8x8(__m256i* w, const std::uint8_t* const (&data)[8], std::size_t at) {
  const __m256i swap = _mm256_broadcastsi128_si256(byteSwap32());
  __m256i pair[8], quad[8];
  for (int i = 0; i < 8; i++) w[i] = _mm256_shuffle_epi8(load256(data[i] + at), swap);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_epi32(w[i], w[i + 1]);
    pair[i + 1] = _mm256_unpackhi_epi32(w[i], w[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_unpacklo_epi64(pair[i], pair[i + 2]);
    quad[i + 1] = _mm256_unpackhi_epi64(pair[i], pair[i + 2]);
    quad[i + 2] = _mm256_unpacklo_epi64(pair[i + 1], pair[i + 3]);
    quad[i + 3] = _mm256_unpackhi_epi64(pair[i + 1], pair[i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    w[i] = _mm256_permute2x128_si256(quad[i], quad[i + 4], 0x20);
    w[i + 4] = _mm256_permute2x128_si256(quad[i], quad[i + 4], 0x31);
  }
}

// Four 64-bit words of four streams.
PDFSEAL_INLINE void transpose4x4(__m256i* w, const std::uint8_t* const (&data)[4], std::size_t at) {
  const __m256i swap = _mm256_broadcastsi128_si256(byteSwap64());
  __m256i pair[4];
  for (int i = 0; i < 4; i++) w[i] = _mm256_shuffle_epi8(load256(data[i] + at), swap);
  for (int i = 0; i < 4; i += 2) {
    pair[i] = _mm256_unpacklo_epi64(w[i], w[i + 1]);
    pair[i + 1] = _mm256_unpackhi_epi64(w[i], w[i + 1]);
  }
  for (int i = 0; i < 2; i++) {
    w[i] = _mm256_permute2x128_si256(pair[i], pair[i + 2], 0x20);
    w[i + 2] = _mm256_permute2x128_si256(pair[i], pair[i + 2], 0x31);
  }
}

}  // namespace
}  // namespace pdfseal
