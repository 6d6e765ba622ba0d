// Words that are 256-bit vectors: 8 lanes of SHA-256 or 4 of SHA-512. Operations missing here use other
// instructions with AVX-512. Included below the #pragma that names the instruction set.
#pragma once

#include "lanes.h"
#include "x86_transpose.h"

namespace pdfseal {
namespace {

struct Vector256 {
  using Word = __m256i;
  static PDFSEAL_INLINE Word load(const void* from) {
    return _mm256_load_si256(static_cast<const Word*>(from));
  }
  static PDFSEAL_INLINE void store(void* to, Word x) { _mm256_store_si256(static_cast<Word*>(to), x); }
};

struct Vector256Of32 : Vector256 {
  static constexpr std::size_t kWidth = 8;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm256_add_epi32(a, b); }
  template <int n>
  static PDFSEAL_INLINE Word shiftRight(Word x) {
    return _mm256_srli_epi32(x, n);
  }
  static PDFSEAL_INLINE Word constant(std::uint32_t k) { return _mm256_set1_epi32(static_cast<int>(k)); }
  static PDFSEAL_INLINE void blocks(Word (&w)[16], const std::uint8_t* const (&data)[kWidth]) {
    transpose8x8(w, data, 0);
    transpose8x8(w + 8, data, 32);
  }
};

struct Vector256Of64 : Vector256 {
  static constexpr std::size_t kWidth = 4;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm256_add_epi64(a, b); }
  template <int n>
  static PDFSEAL_INLINE Word shiftRight(Word x) {
    return _mm256_srli_epi64(x, n);
  }
  static PDFSEAL_INLINE Word constant(std::uint64_t k) {
    return _mm256_set1_epi64x(static_cast<long long>(k));
  }
  static PDFSEAL_INLINE void blocks(Word (&w)[16], const std::uint8_t* const (&data)[kWidth]) {
    for (int i = 0; i < 4; i++) transpose4x4(w + 4 * i, data, 32 * i);
  }
};

}  // namespace
}  // namespace pdfseal
