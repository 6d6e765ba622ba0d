// Both hashes of eight streams in one pass: SHA-512 with a stream in each lane, SHA-256 with the SHA
// extensions.
//
// The slots of the vector units limit both together. The extensions' rounds of SHA-256 take few, but wait for
// each other, so they stand between the rounds of SHA-512; their message schedule takes more than it does in
// lanes, and there it needs no transposing of its own: each lane of SHA-512's words holds two of SHA-256's.
//
// Included below the #pragma that names the instruction set.
#pragma once

#include "lanes.h"
#include "x86_sha.h"

namespace pdfseal {
namespace {

// Sixteen rounds of SHA-512 in eight lanes, each with the word sixteen rounds later, and 32 times two rounds
// of SHA-256 of four streams. This is assembly for two reasons. Compilers keep vectors in all registers
// alike, but an instruction of the SHA extensions takes twice the slots while an upper half of registers 0 to
// 15 is in use. And the order within a round decides how evenly its operations spread over the units; this
// one was found by trying many.
//
// Registers: 24 to 31 are temporary, 1 to 4 and 5 to 8 the halves of SHA-256's four states. Since all of 0 to
// 15 count as overwritten, a to h get 16 to 23.
#define WORD(i, ahead) "64*(" #i "+" #ahead ")(%[words])"
#define CONSTANT(i) "8*" #i "(%[constants])%{1to8%}"
#define PAIR(i, odd, stream) "64*(2*" #i "+" #odd ")+8*" #stream "(%[pairs])"
#define TWO_ROUNDS(pair, from, to) \
  "vmovq " pair                    \
  ", %%xmm0\n"                     \
  "sha256rnds2 %%xmm0, %%xmm" #from ", %%xmm" #to "\n"
#define TWO_ROUNDS_256(i, odd, a, b, c, d, e, f, g, h) \
  TWO_ROUNDS(PAIR(i, odd, 0), a, e)                    \
  TWO_ROUNDS(PAIR(i, odd, 1), b, f)                    \
  TWO_ROUNDS(PAIR(i, odd, 2), c, g)                    \
  TWO_ROUNDS(PAIR(i, odd, 3), d, h)
#define LOAD_256(stream, a, e)                \
  "vmovdqa 32*" #stream "(%[four]), %%xmm" #a \
  "\n"                                        \
  "vmovdqa 32*" #stream "+16(%[four]), %%xmm" #e "\n"
#define ADD_256(stream, a, e)                                \
  "vpaddd 32*" #stream "(%[four]), %%xmm" #a ", %%xmm" #a    \
  "\n"                                                       \
  "vmovdqa %%xmm" #a ", 32*" #stream                         \
  "(%[four])\n"                                              \
  "vpaddd 32*" #stream "+16(%[four]), %%xmm" #e ", %%xmm" #e \
  "\n"                                                       \
  "vmovdqa %%xmm" #e ", 32*" #stream "+16(%[four])\n"
#define EACH_OF_FOUR(of) of(0, 1, 5) of(1, 2, 6) of(2, 3, 7) of(3, 4, 8)
#define ROUND(i, a, b, c, d, e, f, g, h) \
  "vmovdqa64 %[" #a "], %%zmm24\n"                    \
  "vpternlogq $0xe8, %[" #c "], %[" #b "], %%zmm24\n" \
  "vpsrlq $7, " WORD(i, 1) ", %%zmm25\n"              \
  "vpaddq " WORD(i, 0) ", %[" #h "], %[" #h "]\n"     \
  "vpaddq " CONSTANT(i) ", %[" #h "], %[" #h "]\n"    \
  "vprorq $8, " WORD(i, 1) ", %%zmm26\n"              \
  "vprorq $1, " WORD(i, 1) ", %%zmm27\n"              \
  "vpternlogq $0x96, %%zmm25, %%zmm26, %%zmm27\n"     \
  "vmovdqa64 %[" #e "], %%zmm28\n"                    \
  "vpternlogq $0xca, %[" #g "], %[" #f "], %%zmm28\n" \
  "vprorq $18, %[" #e "], %%zmm29\n"                  \
  "vprorq $41, %[" #e "], %%zmm30\n"                  \
  "vprorq $34, %[" #a "], %%zmm31\n"                  \
  "vprorq $14, %[" #e "], %%zmm25\n"                  \
  "vpternlogq $0x96, %%zmm30, %%zmm29, %%zmm25\n"     \
  TWO_ROUNDS_256(i, 0, 1, 2, 3, 4, 5, 6, 7, 8)        \
  "vprorq $39, %[" #a "], %%zmm26\n"                  \
  "vprorq $61, " WORD(i, 14) ", %%zmm29\n"            \
  "vprorq $28, %[" #a "], %%zmm30\n"                  \
  "vpternlogq $0x96, %%zmm26, %%zmm31, %%zmm30\n"     \
  "vpaddq " WORD(i, 0) ", %%zmm27, %%zmm27\n"         \
  "vpsrlq $6, " WORD(i, 14) ", %%zmm31\n"             \
  "vpaddq %%zmm28, %[" #h "], %[" #h "]\n"            \
  "vpaddq %%zmm25, %[" #h "], %[" #h "]\n"            \
  "vpaddq %[" #h "], %[" #d "], %[" #d "]\n"          \
  "vprorq $19, " WORD(i, 14) ", %%zmm26\n"            \
  "vpaddq " WORD(i, 9) ", %%zmm27, %%zmm27\n"         \
  TWO_ROUNDS_256(i, 1, 5, 6, 7, 8, 1, 2, 3, 4)        \
  "vpternlogq $0x96, %%zmm31, %%zmm29, %%zmm26\n"     \
  "vpaddq %%zmm24, %[" #h "], %[" #h "]\n"            \
  "vpaddq %%zmm26, %%zmm27, %%zmm27\n"                \
  "vmovdqa64 %%zmm27, " WORD(i, 16) "\n"              \
  "vpaddq %%zmm30, %[" #h "], %[" #h "]\n"
#define LOW_REGISTERS                                                                                        \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"
#define SIXTEEN_ROUNDS              \
  ROUND(0, a, b, c, d, e, f, g, h)  \
  ROUND(1, h, a, b, c, d, e, f, g)  \
  ROUND(2, g, h, a, b, c, d, e, f)  \
  ROUND(3, f, g, h, a, b, c, d, e)  \
  ROUND(4, e, f, g, h, a, b, c, d)  \
  ROUND(5, d, e, f, g, h, a, b, c)  \
  ROUND(6, c, d, e, f, g, h, a, b)  \
  ROUND(7, b, c, d, e, f, g, h, a)  \
  ROUND(8, a, b, c, d, e, f, g, h)  \
  ROUND(9, h, a, b, c, d, e, f, g)  \
  ROUND(10, g, h, a, b, c, d, e, f) \
  ROUND(11, f, g, h, a, b, c, d, e) \
  ROUND(12, e, f, g, h, a, b, c, d) \
  ROUND(13, d, e, f, g, h, a, b, c) \
  ROUND(14, c, d, e, f, g, h, a, b) \
  ROUND(15, b, c, d, e, f, g, h, a)

class BothOfEight {
 public:
  static constexpr std::size_t kWidth = 8;

  explicit BothOfEight(std::span<const Lane> lanes) {
    for (std::size_t lane = 0; lane < kWidth; lane++) {
      const Lane& from = lanes[lane < lanes.size() ? lane : 0];
      data_[lane] = from.data;
      sha256_[lane].load(from.chain->sha256);
    }
    sha512_.gather(lanes);
  }

  void store(std::span<const Lane> lanes) const {
    sha512_.scatter(lanes);
    for (std::size_t lane = 0; lane < lanes.size(); lane++) sha256_[lane].store(lanes[lane].chain->sha256);
  }

  PDFSEAL_INLINE void stride() {
    __m512i w[16];
    Wide64::blocks(w, data_);
    for (const std::uint8_t*& from : data_) from += kStrideBytes;
    for (int i = 0; i < 16; i++) Wide64::store(words_[i], w[i]);
    schedule256(w, pairs_[0]);
    schedule256(w + 8, pairs_[1]);
    rounds();
  }

 private:
  using Row = std::uint64_t[kWidth];

  // Words 2t and 2t + 1 of a block of SHA-256 are the low and the high half of pair t, which is stored with
  // their constants added.
  static PDFSEAL_INLINE void schedule256(const __m512i* w, Row (&to)[32]) {
    __m512i pair[8], odd[8];  // odd[t] is words 2t + 1 and 2t + 2
    for (int t = 0; t < 8; t++) {
      pair[t] = _mm512_ror_epi64(w[t], 32);
      put256(to, t, pair[t]);
    }
    for (int t = 0; t < 7; t++) odd[t] = _mm512_shrdi_epi64(pair[t], pair[t + 1], 32);
#pragma GCC unroll 1
    for (std::size_t from = 8; from < 32; from += 8) {
      unrolled<8>([&]<std::size_t t>() __attribute__((always_inline)) { expand256<t>(pair, odd, to, from); });
    }
  }

  template <std::size_t t>
  static PDFSEAL_INLINE void expand256(__m512i (&pair)[8], __m512i (&odd)[8], Row (&to)[32],
                                       std::size_t from) {
    using Hash = Compression<Sha256, Wide32>;
    constexpr std::size_t before = (t + 7) & 7;
    pair[t] = Wide32::add(pair[t], odd[(t + 4) & 7]);
    pair[t] = Wide32::add(pair[t], Hash::template schedule<Sha256::kSchedule0>(odd[t]));
    pair[t] = Wide32::add(pair[t], Hash::template schedule<Sha256::kSchedule1>(pair[before]));
    odd[before] = _mm512_shrdi_epi64(pair[before], pair[t], 32);
    put256(to, from + t, pair[t]);
  }

  static PDFSEAL_INLINE void put256(Row (&to)[32], std::size_t t, __m512i pair) {
    long long constants;
    std::memcpy(&constants, kRound256 + 2 * t, sizeof constants);
    Wide32::store(to[t], Wide32::add(pair, _mm512_set1_epi64(constants)));
  }

  PDFSEAL_INLINE void rounds() {
    __m512i s[8];
    for (int i = 0; i < 8; i++) s[i] = Wide64::load(sha512_.word[i]);
    asm volatile("vzeroupper" ::: LOW_REGISTERS);
    // Streams 0 to 3, both blocks, then streams 4 to 7.
#pragma GCC unroll 1
    for (std::size_t turn = 0; turn < 4; turn++) {
      ShaState* four = sha256_ + turn / 2 * 4;
      asm volatile(EACH_OF_FOUR(LOAD_256) SIXTEEN_ROUNDS EACH_OF_FOUR(ADD_256)
                   : [a] "+v"(s[0]), [b] "+v"(s[1]), [c] "+v"(s[2]), [d] "+v"(s[3]), [e] "+v"(s[4]),
                     [f] "+v"(s[5]), [g] "+v"(s[6]), [h] "+v"(s[7])
                   : [words] "r"(words_ + 16 * turn), [constants] "r"(kRound512 + 16 * turn),
                     [pairs] "r"(pairs_[turn % 2][0] + turn / 2 * 4), [four] "r"(four)
                   : "memory", LOW_REGISTERS, "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",
                     "xmm31");
    }
    unrolled<16>([&]<std::size_t i>() __attribute__((always_inline)) { lastRound512<i>(s); });
    for (int i = 0; i < 8; i++) {
      Wide64::store(sha512_.word[i], Wide64::add(s[i], Wide64::load(sha512_.word[i])));
    }
  }

  template <std::size_t i>
  PDFSEAL_INLINE void lastRound512(__m512i (&s)[8]) const {
    const __m512i hk = Wide64::add(s[(15 - i) & 7], Wide64::constant(kRound512[64 + i]));
    Compression<Sha512, Wide64>::round<i>(s, Wide64::add(hk, Wide64::load(words_[64 + i])));
  }

  const std::uint8_t* data_[kWidth];
  Columns<Sha512, Wide64> sha512_;
  ShaState sha256_[kWidth];
  alignas(64) Row words_[80], pairs_[2][32];
};

void advanceBothOfEight(std::span<const Lane> lanes, std::size_t strides) {
  BothOfEight both(lanes);
  for (; strides > 0; strides--) both.stride();
  both.store(lanes);
}

#undef WORD
#undef PAIR
#undef CONSTANT
#undef TWO_ROUNDS
#undef TWO_ROUNDS_256
#undef ROUND
#undef LOW_REGISTERS
#undef SIXTEEN_ROUNDS
#undef EACH_OF_FOUR
#undef LOAD_256
#undef ADD_256

}  // namespace
}  // namespace pdfseal
