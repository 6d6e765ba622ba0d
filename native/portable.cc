// The kernel for every processor: plain integer arithmetic, one stream.
#include <bit>
#include <cstring>

#include "kernels.h"
#include "scalar.h"

namespace pdfseal {
namespace {

void sha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks) {
  compressScalar<Sha256>(chain, data, blocks);
}

void sha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks) {
  compressScalar<Sha512>(chain, data, blocks);
}

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  sha256(chain.sha256, data, 2 * strides);
  sha512(chain.sha512, data, strides);
}

}  // namespace

const Kernel kPortable = {
    .name = "portable",
    .supported = [] { return true; },
    .both = both,
    .sha256 = sha256,
    .sha512 = sha512,
};

}  // namespace pdfseal
