// SHA-NI and AVX2: one stream, both hashes in one pass; more of them in turns for SHA-256, in lanes for
// SHA-512.
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <cpuid.h>

#include "x86_kernels.h"

#pragma GCC target("sha,avx2,bmi,bmi2")
#include <immintrin.h>

#include "x86_both.h"
#include "x86_sha_lanes.h"

namespace pdfseal {
namespace {

struct TwoStrides {
  using Word = __m256i;
  static constexpr std::size_t kStrides = 2;
  static PDFSEAL_INLINE Word add(Word a, Word b) { return _mm256_add_epi64(a, b); }
  static PDFSEAL_INLINE Word exclusiveOr(Word a, Word b, Word c) { return a ^ b ^ c; }
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_srli_epi64(x, n) | _mm256_slli_epi64(x, 64 - n);
  }
  template <int n>
  static PDFSEAL_INLINE Word shiftRight(Word x) {
    return _mm256_srli_epi64(x, n);
  }
  static PDFSEAL_INLINE Word nextWords(Word a, Word b) { return _mm256_alignr_epi8(b, a, 8); }
  static PDFSEAL_INLINE Word repeat(const std::uint64_t* two) {
    return _mm256_broadcastsi128_si256(load128(two));
  }
  static PDFSEAL_INLINE void store(std::uint64_t* to, Word x) {
    _mm256_store_si256(reinterpret_cast<Word*>(to), x);
  }
  static PDFSEAL_INLINE Word load(const std::uint8_t* data, std::size_t last) {
    const __m256i swap =
        _mm256_set_epi64x(0x08090a0b0c0d0e0f, 0x0001020304050607, 0x08090a0b0c0d0e0f, 0x0001020304050607);
    const std::uint8_t* second = data + (last > 0 ? kStrideBytes : 0);
    return _mm256_shuffle_epi8(
        _mm256_inserti128_si256(_mm256_castsi128_si256(load128(data)), load128(second), 1), swap);
  }

 private:
  static PDFSEAL_INLINE __m128i load128(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
};

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  interleavedBoth<TwoStrides>(chain, data, strides);
}

constexpr LaneFunction kLanes512[] = {
    {.width = 4, .worthwhile = 3, .advance = avx2FourSha512},
};

}  // namespace

bool hasSha() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

void shaSha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks) {
  ShaNi sha256;
  sha256.load(chain);
  for (; blocks > 0; blocks--, data += 64) {
    sha256.begin(data);
    [&]<std::size_t... q>(std::index_sequence<q...>) __attribute__((always_inline)) {
      (sha256.template fourRounds<q>(), ...);
    }
    (std::make_index_sequence<16>());
    sha256.end();
  }
  sha256.store(chain);
}

const Kernel kAvx2Sha = {
    .name = "avx2-sha",
    .supported = [] { return __builtin_cpu_supports("avx2") && hasBmi2() && hasSha(); },
    .both = both,
    .sha256 = shaSha256,
    .sha512 = bmi2Sha512,
    .lanesBoth = {},
    .lanes256 = kSha256Lanes,
    .lanes512 = kLanes512,
};

}  // namespace pdfseal

#endif
