// SHA-256 with the SHA extensions ("SHA-NI"): the state of one stream in two registers, four rounds at a
// time. Included below the #pragma that names the instruction set.
#pragma once

#include <immintrin.h>

#include "sha2.h"

namespace pdfseal {
namespace {

PDFSEAL_INLINE __m128i loadWords(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

// The chaining value of a stream. The instructions require (a, b, e, f) and (c, d, g, h), highest word first.
struct ShaState {
  __m128i abef, cdgh;

  PDFSEAL_INLINE void load(const std::uint32_t* chain) {
    const __m128i dcba = loadWords(chain), hgfe = loadWords(chain + 4);
    abef = _mm_shuffle_epi32(_mm_unpacklo_epi64(dcba, hgfe), 0x1b);
    cdgh = _mm_shuffle_epi32(_mm_unpackhi_epi64(dcba, hgfe), 0x1b);
  }

  PDFSEAL_INLINE void store(std::uint32_t* chain) const {
    const __m128i low = _mm_shuffle_epi32(abef, 0x1b), high = _mm_shuffle_epi32(cdgh, 0x1b);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(chain), _mm_unpacklo_epi64(low, high));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(chain + 4), _mm_unpackhi_epi64(low, high));
  }

  PDFSEAL_INLINE void add(const ShaState& other) {
    abef = _mm_add_epi32(abef, other.abef);
    cdgh = _mm_add_epi32(cdgh, other.cdgh);
  }
};

// The rounds and the message schedule.
class ShaNi : public ShaState {
 public:
  PDFSEAL_INLINE void begin(const std::uint8_t* block) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    for (int i = 0; i < 4; i++) w_[i] = _mm_shuffle_epi8(loadWords(block + 16 * i), swap);
    abefBefore_ = abef;
    cdghBefore_ = cdgh;
  }

  // Rounds 4q to 4q + 3; then the four words just used are replaced by those sixteen rounds later.
  template <std::size_t q>
  PDFSEAL_INLINE void fourRounds() {
    __m128i &w0 = w_[q & 3], &w1 = w_[(q + 1) & 3], &w2 = w_[(q + 2) & 3], &w3 = w_[(q + 3) & 3];
    const __m128i kw = _mm_add_epi32(w0, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound256 + 4 * q)));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, kw);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_unpackhi_epi64(kw, kw));
    if constexpr (q < 12) {
      const __m128i w9 = _mm_alignr_epi8(w3, w2, 4);
      w0 = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), w9), w3);
    }
  }

  PDFSEAL_INLINE void end() {
    abef = _mm_add_epi32(abef, abefBefore_);
    cdgh = _mm_add_epi32(cdgh, cdghBefore_);
  }

 private:
  __m128i abefBefore_, cdghBefore_, w_[4];
};

}  // namespace
}  // namespace pdfseal
