// SHA-256 with the SHA extensions ("SHA-NI"): the state of one stream in two registers, four rounds at a
// time. Included below the #pragma that names the instruction set.
#pragma once

#include <immintrin.h>

#include "sha2.h"

namespace pdfseal {
namespace {

class ShaNi {
 public:
  // The instructions want (a, b, e, f) and (c, d, g, h), highest word first.
  PDFSEAL_INLINE void load(const std::uint32_t* chain) {
    const __m128i dcba = loadWords(chain), hgfe = loadWords(chain + 4);
    abef_ = _mm_shuffle_epi32(_mm_unpacklo_epi64(dcba, hgfe), 0x1b);
    cdgh_ = _mm_shuffle_epi32(_mm_unpackhi_epi64(dcba, hgfe), 0x1b);
  }

  PDFSEAL_INLINE void store(std::uint32_t* chain) const {
    const __m128i low = _mm_shuffle_epi32(abef_, 0x1b), high = _mm_shuffle_epi32(cdgh_, 0x1b);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(chain), _mm_unpacklo_epi64(low, high));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(chain + 4), _mm_unpackhi_epi64(low, high));
  }

  PDFSEAL_INLINE void begin(const std::uint8_t* block) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    for (int i = 0; i < 4; i++) w_[i] = _mm_shuffle_epi8(loadWords(block + 16 * i), swap);
    abefBefore_ = abef_;
    cdghBefore_ = cdgh_;
  }

  // Rounds 4q to 4q + 3; then the four words just used give way to those sixteen rounds later.
  template <std::size_t q>
  PDFSEAL_INLINE void fourRounds() {
    __m128i &w0 = w_[q & 3], &w1 = w_[(q + 1) & 3], &w2 = w_[(q + 2) & 3], &w3 = w_[(q + 3) & 3];
    const __m128i kw = _mm_add_epi32(w0, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound256 + 4 * q)));
    cdgh_ = _mm_sha256rnds2_epu32(cdgh_, abef_, kw);
    abef_ = _mm_sha256rnds2_epu32(abef_, cdgh_, _mm_unpackhi_epi64(kw, kw));
    if constexpr (q < 12) {
      const __m128i w9 = _mm_alignr_epi8(w3, w2, 4);
      w0 = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), w9), w3);
    }
  }

  PDFSEAL_INLINE void end() {
    abef_ = _mm_add_epi32(abef_, abefBefore_);
    cdgh_ = _mm_add_epi32(cdgh_, cdghBefore_);
  }

 private:
  static PDFSEAL_INLINE __m128i loadWords(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }

  __m128i abef_, cdgh_, abefBefore_, cdghBefore_, w_[4];
};

}  // namespace
}  // namespace pdfseal
