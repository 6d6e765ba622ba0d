// SHA-256 with the crypto extensions of ARMv8 (FEAT_SHA256), four rounds at a time. Included below the
// #pragma that names the instruction set.
#pragma once

#include <arm_neon.h>

#include "sha2.h"

namespace pdfseal {
namespace {

class ArmSha256 {
 public:
  PDFSEAL_INLINE void load(const std::uint32_t* chain) {
    abcd_ = vld1q_u32(chain);
    efgh_ = vld1q_u32(chain + 4);
  }

  PDFSEAL_INLINE void store(std::uint32_t* chain) const {
    vst1q_u32(chain, abcd_);
    vst1q_u32(chain + 4, efgh_);
  }

  PDFSEAL_INLINE void begin(const std::uint8_t* block) {
    for (int i = 0; i < 4; i++) w_[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(block + 16 * i)));
    abcdBefore_ = abcd_;
    efghBefore_ = efgh_;
  }

  // Rounds 4q to 4q + 3; then the four words just used are replaced by those sixteen rounds later.
  template <std::size_t q>
  PDFSEAL_INLINE void fourRounds() {
    uint32x4_t& w0 = w_[q & 3];
    const uint32x4_t kw = vaddq_u32(w0, vld1q_u32(kRound256 + 4 * q)), abcd = abcd_;
    abcd_ = vsha256hq_u32(abcd, efgh_, kw);
    efgh_ = vsha256h2q_u32(efgh_, abcd, kw);
    if constexpr (q < 12)
      w0 = vsha256su1q_u32(vsha256su0q_u32(w0, w_[(q + 1) & 3]), w_[(q + 2) & 3], w_[(q + 3) & 3]);
  }

  PDFSEAL_INLINE void end() {
    abcd_ = vaddq_u32(abcd_, abcdBefore_);
    efgh_ = vaddq_u32(efgh_, efghBefore_);
  }

 private:
  uint32x4_t abcd_, efgh_, abcdBefore_, efghBefore_, w_[4];
};

PDFSEAL_INLINE void sha256Block(ArmSha256& sha256, const std::uint8_t* block) {
  sha256.begin(block);
  unrolled<16>([&]<std::size_t q>() __attribute__((always_inline)) { sha256.fourRounds<q>(); });
  sha256.end();
}

}  // namespace
}  // namespace pdfseal
