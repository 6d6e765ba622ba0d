// AVX2: 8 lanes of SHA-256 and 4 of SHA-512; one stream by integers with BMI2 (rotations without a move).
#if defined(__x86_64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "x86_kernels.h"

#pragma GCC target("avx2,bmi,bmi2")
#include <immintrin.h>

#include "scalar.h"
#include "x86_words256.h"

namespace pdfseal {
namespace {

template <class Vector>
struct Avx2 : Vector {
  using Word = __m256i;
  static PDFSEAL_INLINE Word exclusiveOr(Word a, Word b, Word c) { return a ^ b ^ c; }
  static PDFSEAL_INLINE Word choose(Word e, Word f, Word g) { return ((f ^ g) & e) ^ g; }
  // The compiler keeps a ^ b: it is the next round's b ^ c.
  static PDFSEAL_INLINE Word majority(Word a, Word b, Word c) { return ((a ^ b) & (b ^ c)) ^ b; }
};

struct Avx2Of32 : Avx2<Vector256Of32> {
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_srli_epi32(x, n) | _mm256_slli_epi32(x, 32 - n);
  }
};

struct Avx2Of64 : Avx2<Vector256Of64> {
  template <int n>
  static PDFSEAL_INLINE Word rotateRight(Word x) {
    return _mm256_srli_epi64(x, n) | _mm256_slli_epi64(x, 64 - n);
  }
};

constexpr LaneFunction kLanes256[] = {
    {.width = 8, .worthwhile = 2, .advance = advanceLanes<Sha256, Avx2Of32>},
};

constexpr LaneFunction kLanes512[] = {
    {.width = 4, .worthwhile = 2, .advance = avx2FourSha512},
};

}  // namespace

bool hasBmi2() { return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"); }

void avx2FourSha512(std::span<const Lane> lanes, std::size_t strides) {
  advanceLanes<Sha512, Avx2Of64>(lanes, strides);
}

void bmi2Sha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks) {
  compressScalar<Sha256>(chain, data, blocks);
}

void bmi2Sha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks) {
  compressScalar<Sha512>(chain, data, blocks);
}

void bmi2Both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  bmi2Sha256(chain.sha256, data, 2 * strides);
  bmi2Sha512(chain.sha512, data, strides);
}

const Kernel kAvx2 = {
    .name = "avx2",
    .supported = [] { return __builtin_cpu_supports("avx2") && hasBmi2(); },
    .both = bmi2Both,
    .sha256 = bmi2Sha256,
    .sha512 = bmi2Sha512,
    .lanes256 = kLanes256,
    .lanes512 = kLanes512,
};

}  // namespace pdfseal

#endif
