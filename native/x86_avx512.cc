// AVX-512 (F, BW, VL): 16 lanes of SHA-256 and 8 of SHA-512 in 512-bit registers, half as many in 256-bit
// ones.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "x86_kernels.h"

#pragma GCC target("sha,avx512f,avx512bw,avx512vl,avx2,bmi,bmi2")
#include <immintrin.h>
// GCC 12 takes the undefined register that some intrinsics start from for a mistake of the caller (its bug
// 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "lanes.h"
#include "x86_both.h"
#include "x86_sha_lanes.h"
#include "x86_transpose512.h"

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

struct Half {
  using Word = __m256i;
  static PDFSEAL_INLINE Word load(const void* from) {
    return _mm256_load_si256(static_cast<const Word*>(from));
  }
  static PDFSEAL_INLINE void store(void* to, Word x) { _mm256_store_si256(static_cast<Word*>(to), x); }
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

struct Half32 : Half {
  static constexpr std::size_t kWidth = 8;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm256_add_epi32(a, b); }
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_ror_epi32(x, n);
  }
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

struct Half64 : Half {
  static constexpr std::size_t kWidth = 4;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm256_add_epi64(a, b); }
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_ror_epi64(x, n);
  }
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

struct FourStrides : Wide64 {
  static constexpr std::size_t kStrides = 4;
  static PDFSEAL_INLINE Word nextWords(Word a, Word b) { return _mm512_alignr_epi8(b, a, 8); }
  static PDFSEAL_INLINE Word repeat(const std::uint64_t* two) { return _mm512_broadcast_i32x4(load128(two)); }
  static PDFSEAL_INLINE Word load(const std::uint8_t* data, std::size_t last) {
    auto part = [&](std::size_t i) { return load128(data + kStrideBytes * (i < last ? i : last)); };
    Word x = _mm512_castsi128_si512(part(0));
    x = _mm512_inserti32x4(x, part(1), 1);
    x = _mm512_inserti32x4(x, part(2), 2);
    x = _mm512_inserti32x4(x, part(3), 3);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(byteSwap64()));
  }

 private:
  static PDFSEAL_INLINE __m128i load128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
};

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  interleavedBoth<FourStrides>(chain, data, strides);
}

bool hasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

// Without SHA-NI even a single stream is faster in a lane than by integers.
constexpr LaneFunction kLanes256[] = {
    {.width = 16, .worthwhile = 9, .advance = advanceLanes<Sha256, Wide32>},
    {.width = 8, .worthwhile = 1, .advance = advanceLanes<Sha256, Half32>},
};

constexpr LaneFunction kLanes512[] = {
    {.width = 8, .worthwhile = 5, .advance = advanceLanes<Sha512, Wide64>},
    {.width = 4, .worthwhile = 1, .advance = advanceLanes<Sha512, Half64>},
};

constexpr LaneFunction kLanes512BesideSha[] = {
    {.width = 8, .worthwhile = 6, .advance = advanceLanes<Sha512, Wide64>},
    {.width = 4, .worthwhile = 2, .advance = advanceLanes<Sha512, Half64>},
};

}  // namespace

const Kernel kAvx512 = {
    .name = "avx512",
    .supported = [] { return hasAvx512() && hasBmi2(); },
    .both = bmi2Both,
    .sha256 = bmi2Sha256,
    .sha512 = bmi2Sha512,
    .lanes256 = kLanes256,
    .lanes512 = kLanes512,
};

const Kernel kAvx512Sha = {
    .name = "avx512-sha",
    .supported = [] { return hasAvx512() && hasBmi2() && hasSha(); },
    .both = both,
    .sha256 = shaSha256,
    .sha512 = bmi2Sha512,
    .lanes256 = kSha256Lanes,
    .lanes512 = kLanes512BesideSha,
};

}  // namespace pdfseal

#endif
