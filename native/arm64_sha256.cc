// ARMv8 with SHA-256 instructions; SHA-512 uses integers, stride by stride.
#if defined(__aarch64__)

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <sys/auxv.h>

#include "arm64_kernels.h"

#pragma GCC target("+crypto")  // where GCC 12 has the SHA-256 intrinsics
#include "arm64_sha256.h"
#include "scalar.h"

namespace pdfseal {
namespace {

void sha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks) {
  compressScalar<Sha512>(chain, data, blocks);
}

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  for (; strides > 0; strides--, data += kStrideBytes) {
    armSha256(chain.sha256, data, 2);
    sha512(chain.sha512, data, 1);
  }
}

}  // namespace

bool hasArmSha256() { return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0; }

void armSha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks) {
  ArmSha256 sha256;
  sha256.load(chain);
  for (; blocks > 0; blocks--, data += 64) sha256Block(sha256, data);
  sha256.store(chain);
}

const Kernel kArm64Sha256 = {
    .name = "arm64-sha256",
    .supported = hasArmSha256,
    .both = both,
    .sha256 = armSha256,
    .sha512 = sha512,
};

}  // namespace pdfseal

#endif
