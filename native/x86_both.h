// One stream, both hashes in one pass: SHA-256 keeps the SHA unit busy, the rounds of SHA-512 the integer
// units, and the vector units expand SHA-512's message schedule, a stride ahead. The three are interleaved in
// the source, because a processor looks only a few hundred instructions ahead.
//
// Vectors have 128 bits: wider ones would leave upper halves dirty, and then an instruction of the SHA
// extensions takes a hundred times as long on Intel processors.
//
// The Ops of a vector of two words: rotateRight<n>, exclusiveOr. Included below the #pragma that names the
// instruction set.
#pragma once

#include "kernels.h"
#include "x86_sha.h"

namespace pdfseal {
namespace {

// The rounds of SHA-512 in integer registers. They are written in assembly because they determine the speed:
// compilers run out of registers, and the next round waits for what they spill.
class Rounds512 {
 public:
  PDFSEAL_INLINE void load(const std::uint64_t* chain) {
    for (int i = 0; i < 8; i++) s_[i] = chain[i];
    bc_ = s_[1] ^ s_[2];
  }

  PDFSEAL_INLINE void end(std::uint64_t* chain) {
    for (int i = 0; i < 8; i++) chain[i] = s_[i] += chain[i];
    bc_ = s_[1] ^ s_[2];
  }

  // Round i, given the sum of its constant and its word.
  template <std::size_t i>
  PDFSEAL_INLINE void round(const std::uint64_t& kw) {
    std::uint64_t &d = s_[(11 - i) & 7], &h = s_[(15 - i) & 7];
    const std::uint64_t a = s_[(8 - i) & 7], b = s_[(9 - i) & 7];
    const std::uint64_t e = s_[(12 - i) & 7], f = s_[(13 - i) & 7], g = s_[(14 - i) & 7];
    std::uint64_t t, u, ab;
    asm("rorxq $41, %[e], %[u]\n"
        "rorxq $18, %[e], %[t]\n"
        "addq %[kw], %[h]\n"
        "andnq %[g], %[e], %[ab]\n"
        "xorq %[t], %[u]\n"
        "rorxq $14, %[e], %[t]\n"
        "addq %[ab], %[h]\n"
        "movq %[e], %[ab]\n"
        "andq %[f], %[ab]\n"
        "xorq %[t], %[u]\n"
        "addq %[ab], %[h]\n"
        "addq %[u], %[h]\n"
        "addq %[h], %[d]\n"
        // The majority of a, b and c is ((a ^ b) & (b ^ c)) ^ b; a ^ b is the next round's b ^ c.
        "movq %[a], %[ab]\n"
        "xorq %[b], %[ab]\n"
        "andq %[ab], %[bc]\n"
        "xorq %[b], %[bc]\n"
        "addq %[bc], %[h]\n"
        "rorxq $39, %[a], %[u]\n"
        "rorxq $34, %[a], %[t]\n"
        "xorq %[t], %[u]\n"
        "rorxq $28, %[a], %[t]\n"
        "xorq %[t], %[u]\n"
        "addq %[u], %[h]\n"
        : [h] "+&r"(h), [d] "+&r"(d), [bc] "+&r"(bc_), [t] "=&r"(t), [u] "=&r"(u), [ab] "=&r"(ab)
        : [a] "r"(a), [b] "r"(b), [e] "r"(e), [f] "r"(f), [g] "r"(g), [kw] "m"(kw)
        : "cc");
    bc_ = ab;
  }

 private:
  std::uint64_t s_[8], bc_;
};

// The message schedule of SHA-512, two words a row, each with its round's constant added. A row is replaced
// by the next stride's as soon as its two rounds are done.
template <class Ops>
class Schedule {
 public:
  static constexpr std::size_t kRows = 40;

  template <std::size_t j>
  PDFSEAL_INLINE const std::uint64_t* row() const {
    return rows_ + 2 * j;
  }

  // Row j of the stride at `data`. Must be called in order.
  template <std::size_t j>
  PDFSEAL_INLINE void expand(const std::uint8_t* data) {
    __m128i& w = w_[j & 7];
    if constexpr (j < 8) {
      const __m128i swap = _mm_set_epi64x(0x08090a0b0c0d0e0f, 0x0001020304050607);
      w = _mm_shuffle_epi8(loadWords(data + 16 * j), swap);
    } else {
      const __m128i w1 = _mm_alignr_epi8(w_[(j + 1) & 7], w, 8);
      const __m128i w9 = _mm_alignr_epi8(w_[(j + 5) & 7], w_[(j + 4) & 7], 8);
      w = _mm_add_epi64(_mm_add_epi64(w, w9), schedule<Sha512::kSchedule0>(w1));
      w = _mm_add_epi64(w, schedule<Sha512::kSchedule1>(w_[(j + 7) & 7]));
    }
    const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(kRound512 + 2 * j));
    _mm_store_si128(reinterpret_cast<__m128i*>(rows_ + 2 * j), _mm_add_epi64(w, constants));
  }

 private:
  template <const int (&n)[3]>
  static PDFSEAL_INLINE __m128i schedule(__m128i x) {
    return Ops::exclusiveOr(Ops::template rotateRight<n[0]>(x), Ops::template rotateRight<n[1]>(x),
                            _mm_srli_epi64(x, n[2]));
  }

  __m128i w_[8];
  alignas(16) std::uint64_t rows_[2 * kRows];
};

template <class Ops>
class Interleaved {
 public:
  PDFSEAL_INLINE void advance(Chain& chain, const std::uint8_t* data, std::size_t strides) {
    sha256_.load(chain.sha256);
    sha512_.load(chain.sha512);
    unrolled<kRows>([&]<std::size_t j>() __attribute__((always_inline)) { schedule_.template expand<j>(data); });
#pragma GCC unroll 1
    for (; strides > 0; strides--, data += kStrideBytes) {
      // After the last stride there is nothing to read: its own schedule is computed again and dropped.
      const std::uint8_t* next = strides > 1 ? data + kStrideBytes : data;
      unrolled<kRows>([&]<std::size_t j>() __attribute__((always_inline)) { step<j>(data, next); });
      sha512_.end(chain.sha512);
    }
    sha256_.store(chain.sha256);
  }

 private:
  static constexpr std::size_t kRows = Schedule<Ops>::kRows;

  // Rounds 2j and 2j + 1 of SHA-512, and the parts of the two others that are due in the same time.
  template <std::size_t j>
  PDFSEAL_INLINE void step(const std::uint8_t* data, const std::uint8_t* next) {
    constexpr std::size_t quad = j * 32 / kRows, quadAfter = (j + 1) * 32 / kRows;
    sha512_.round<(2 * j) & 7>(schedule_.template row<j>()[0]);
    if constexpr (quadAfter > quad) {
      if constexpr (quad % 16 == 0) sha256_.begin(data + quad * 4);
      sha256_.template fourRounds<quad % 16>();
      if constexpr (quad % 16 == 15) sha256_.end();
    }
    sha512_.round<(2 * j + 1) & 7>(schedule_.template row<j>()[1]);
    schedule_.template expand<j>(next);
  }

  ShaNi sha256_;
  Rounds512 sha512_;
  Schedule<Ops> schedule_;
};

}  // namespace
}  // namespace pdfseal
