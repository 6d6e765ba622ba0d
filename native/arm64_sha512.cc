// ARMv8.2 that also has SHA-512 instructions (FEAT_SHA512): both hashes of one stream, interleaved.
#if defined(__aarch64__)

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <sys/auxv.h>

#include "arm64_kernels.h"

#pragma GCC target("arch=armv8.2-a+crypto+sha3")
#include "arm64_sha256.h"

namespace pdfseal {
namespace {

class ArmSha512 {
 public:
  PDFSEAL_INLINE void load(const std::uint64_t* chain) {
    for (int i = 0; i < 4; i++) s_[i] = vld1q_u64(chain + 2 * i);
  }

  PDFSEAL_INLINE void store(std::uint64_t* chain) const {
    for (int i = 0; i < 4; i++) vst1q_u64(chain + 2 * i, s_[i]);
  }

  PDFSEAL_INLINE void begin(const std::uint8_t* block) {
    for (int i = 0; i < 8; i++) w_[i] = vreinterpretq_u64_u8(vrev64q_u8(vld1q_u8(block + 16 * i)));
    for (int i = 0; i < 4; i++) before_[i] = s_[i];
  }

  // Rounds 2j and 2j + 1; then the two words just used are replaced by those sixteen rounds later.
  template <std::size_t j>
  PDFSEAL_INLINE void twoRounds() {
    uint64x2_t& w0 = w_[j & 7];
    uint64x2_t &ab = s_[(4 - j) & 3], &cd = s_[(5 - j) & 3], &ef = s_[(6 - j) & 3], &gh = s_[(7 - j) & 3];
    const uint64x2_t kw = vaddq_u64(w0, vld1q_u64(kRound512 + 2 * j));
    const uint64x2_t h = vaddq_u64(gh, vextq_u64(kw, kw, 1));
    const uint64x2_t t1 = vsha512hq_u64(h, vextq_u64(ef, gh, 1), vextq_u64(cd, ef, 1));
    gh = vsha512h2q_u64(t1, cd, ab);
    cd = vaddq_u64(cd, t1);
    if constexpr (j < 32) {
      const uint64x2_t w9 = vextq_u64(w_[(j + 4) & 7], w_[(j + 5) & 7], 1);
      w0 = vsha512su1q_u64(vsha512su0q_u64(w0, w_[(j + 1) & 7]), w_[(j + 7) & 7], w9);
    }
  }

  PDFSEAL_INLINE void end() {
    for (int i = 0; i < 4; i++) s_[i] = vaddq_u64(s_[i], before_[i]);
  }

 private:
  uint64x2_t s_[4], before_[4], w_[8];
};

template <std::size_t j>
PDFSEAL_INLINE void step(ArmSha256& sha256, ArmSha512& sha512, const std::uint8_t* data) {
  constexpr std::size_t quad = j * 32 / 40, quadAfter = (j + 1) * 32 / 40;
  sha512.twoRounds<j>();
  if constexpr (quadAfter > quad) {
    if constexpr (quad % 16 == 0) sha256.begin(data + quad * 4);
    sha256.fourRounds<quad % 16>();
    if constexpr (quad % 16 == 15) sha256.end();
  }
}

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  ArmSha256 sha256;
  ArmSha512 sha512;
  sha256.load(chain.sha256);
  sha512.load(chain.sha512);
  for (; strides > 0; strides--, data += kStrideBytes) {
    sha512.begin(data);
    unrolled<40>([&]<std::size_t j>() __attribute__((always_inline)) { step<j>(sha256, sha512, data); });
    sha512.end();
  }
  sha256.store(chain.sha256);
  sha512.store(chain.sha512);
}

void onlySha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks) {
  ArmSha512 sha512;
  sha512.load(chain);
  for (; blocks > 0; blocks--, data += kStrideBytes) {
    sha512.begin(data);
    unrolled<40>([&]<std::size_t j>() __attribute__((always_inline)) { sha512.twoRounds<j>(); });
    sha512.end();
  }
  sha512.store(chain);
}

}  // namespace

const Kernel kArm64Sha512 = {
    .name = "arm64-sha512",
    .supported = [] { return hasArmSha256() && (getauxval(AT_HWCAP) & HWCAP_SHA512) != 0; },
    .both = both,
    .sha256 = armSha256,
    .sha512 = onlySha512,
};

}  // namespace pdfseal

#endif
