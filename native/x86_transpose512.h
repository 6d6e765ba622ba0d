// Like x86_transpose.h, with 512-bit registers. Included below the #pragma that names the instruction set.
#pragma once

#include "x86_transpose.h"

namespace pdfseal {
namespace {

// Sixteen 32-bit words of sixteen streams. Quarters (128 bits) are first transposed within, then among each
// other.
PDFSEAL_INLINE void transpose16x16(__m512i (&w)[16], const std::uint8_t* const (&data)[16]) {
  const __m512i swap = _mm512_broadcast_i32x4(byteSwap32());
  __m512i pair[16], quad[16];
  for (int i = 0; i < 16; i++) w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(data[i]), swap);
  for (int i = 0; i < 16; i += 2) {
    pair[i] = _mm512_unpacklo_epi32(w[i], w[i + 1]);
    pair[i + 1] = _mm512_unpackhi_epi32(w[i], w[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    quad[i] = _mm512_unpacklo_epi64(pair[i], pair[i + 2]);
    quad[i + 1] = _mm512_unpackhi_epi64(pair[i], pair[i + 2]);
    quad[i + 2] = _mm512_unpacklo_epi64(pair[i + 1], pair[i + 3]);
    quad[i + 3] = _mm512_unpackhi_epi64(pair[i + 1], pair[i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    const __m512i evenLow = _mm512_shuffle_i32x4(quad[i], quad[i + 4], 0x88);
    const __m512i oddLow = _mm512_shuffle_i32x4(quad[i], quad[i + 4], 0xdd);
    const __m512i evenHigh = _mm512_shuffle_i32x4(quad[i + 8], quad[i + 12], 0x88);
    const __m512i oddHigh = _mm512_shuffle_i32x4(quad[i + 8], quad[i + 12], 0xdd);
    w[i] = _mm512_shuffle_i32x4(evenLow, evenHigh, 0x88);
    w[i + 4] = _mm512_shuffle_i32x4(oddLow, oddHigh, 0x88);
    w[i + 8] = _mm512_shuffle_i32x4(evenLow, evenHigh, 0xdd);
    w[i + 12] = _mm512_shuffle_i32x4(oddLow, oddHigh, 0xdd);
  }
}

// Eight 64-bit words of eight streams.
PDFSEAL_INLINE void transpose8x8(__m512i* w, const std::uint8_t* const (&data)[8], std::size_t at) {
  const __m512i swap = _mm512_broadcast_i32x4(byteSwap64());
  __m512i pair[8];
  for (int i = 0; i < 8; i++) w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(data[i] + at), swap);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm512_unpacklo_epi64(w[i], w[i + 1]);
    pair[i + 1] = _mm512_unpackhi_epi64(w[i], w[i + 1]);
  }
  for (int i = 0; i < 2; i++) {
    const __m512i evenLow = _mm512_shuffle_i64x2(pair[i], pair[i + 2], 0x88);
    const __m512i oddLow = _mm512_shuffle_i64x2(pair[i], pair[i + 2], 0xdd);
    const __m512i evenHigh = _mm512_shuffle_i64x2(pair[i + 4], pair[i + 6], 0x88);
    const __m512i oddHigh = _mm512_shuffle_i64x2(pair[i + 4], pair[i + 6], 0xdd);
    w[i] = _mm512_shuffle_i64x2(evenLow, evenHigh, 0x88);
    w[i + 2] = _mm512_shuffle_i64x2(oddLow, oddHigh, 0x88);
    w[i + 4] = _mm512_shuffle_i64x2(evenLow, evenHigh, 0xdd);
    w[i + 6] = _mm512_shuffle_i64x2(oddLow, oddHigh, 0xdd);
  }
}

}  // namespace
}  // namespace pdfseal
