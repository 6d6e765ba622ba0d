// Words that are 512-bit vectors, or 256-bit ones: 16 lanes of SHA-256 and 8 of SHA-512, or half as many.
// Included below the #pragma that names the instruction set.
#pragma once

#include "x86_transpose512.h"
#include "x86_words256.h"

namespace pdfseal {
namespace {

// The truth tables of VPTERNLOG.
constexpr int kExclusiveOr = 0x96, kChoose = 0xca, kMajority = 0xe8;

struct Wide {
  using Word = __m512i;
  static PDFSEAL_INLINE Word load(const void* from) { return _mm512_load_si512(from); }
  static PDFSEAL_INLINE void store(void* to, Word x) { _mm512_store_si512(to, x); }
  static PDFSEAL_INLINE Word exclusiveOr(Word a, Word b, Word c) {
    return _mm512_ternarylogic_epi64(a, b, c, kExclusiveOr);
  }
  static PDFSEAL_INLINE Word choose(Word e, Word f, Word g) {
    return _mm512_ternarylogic_epi64(e, f, g, kChoose);
  }
  static PDFSEAL_INLINE Word majority(Word a, Word b, Word c) {
    return _mm512_ternarylogic_epi64(a, b, c, kMajority);
  }
};

struct Wide32 : Wide {
  static constexpr std::size_t kWidth = 16;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm512_add_epi32(a, b); }
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm512_ror_epi32(x, n);
  }
  template <int n>
  static PDFSEAL_INLINE Word shiftRight(Word x) {
    return _mm512_srli_epi32(x, n);
  }
  static PDFSEAL_INLINE Word constant(std::uint32_t k) { return _mm512_set1_epi32(static_cast<int>(k)); }
  static PDFSEAL_INLINE void blocks(Word (&w)[16], const std::uint8_t* const (&data)[kWidth]) {
    transpose16x16(w, data);
  }
};

struct Wide64 : Wide {
  static constexpr std::size_t kWidth = 8;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm512_add_epi64(a, b); }
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm512_ror_epi64(x, n);
  }
  template <int n>
  static PDFSEAL_INLINE Word shiftRight(Word x) {
    return _mm512_srli_epi64(x, n);
  }
  static PDFSEAL_INLINE Word constant(std::uint64_t k) {
    return _mm512_set1_epi64(static_cast<long long>(k));
  }
  static PDFSEAL_INLINE void blocks(Word (&w)[16], const std::uint8_t* const (&data)[kWidth]) {
    transpose8x8(w, data, 0);
    transpose8x8(w + 8, data, 64);
  }
};

template <class Vector>
struct Half : Vector {
  using Word = __m256i;
  static PDFSEAL_INLINE Word exclusiveOr(Word a, Word b, Word c) {
    return _mm256_ternarylogic_epi64(a, b, c, kExclusiveOr);
  }
  static PDFSEAL_INLINE Word choose(Word e, Word f, Word g) {
    return _mm256_ternarylogic_epi64(e, f, g, kChoose);
  }
  static PDFSEAL_INLINE Word majority(Word a, Word b, Word c) {
    return _mm256_ternarylogic_epi64(a, b, c, kMajority);
  }
};

struct Half32 : Half<Vector256Of32> {
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_ror_epi32(x, n);
  }
};

struct Half64 : Half<Vector256Of64> {
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_ror_epi64(x, n);
  }
};

}  // namespace
}  // namespace pdfseal
