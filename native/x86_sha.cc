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

#pragma GCC target("sha,avx2,bmi,bmi2,prefer-vector-width=128")
#include <immintrin.h>

#include "x86_both.h"
#include "x86_sha_lanes.h"

namespace pdfseal {
namespace {

struct Avx {
  static PDFSEAL_INLINE __m128i exclusiveOr(__m128i a, __m128i b, __m128i c) { return a ^ b ^ c; }
  template <int n>
  static PDFSEAL_INLINE __m128i rotateRight(__m128i x) {
    return _mm_srli_epi64(x, n) | _mm_slli_epi64(x, 64 - n);
  }
};

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  Interleaved<Avx>().advance(chain, data, strides);
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
    unrolled<16>([&]<std::size_t q>() __attribute__((always_inline)) { sha256.fourRounds<q>(); });
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
    .lanes256 = kSha256Lanes,
    .lanes512 = kLanes512,
};

}  // namespace pdfseal

#endif
