// The kernel for every processor: plain integer arithmetic, one stream.
#include <bit>
#include <cstring>

#include "kernels.h"
#include "scalar.h"

namespace pdfseal {
namespace {

void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  compressScalar<Sha256>(chain.sha256, data, 2 * strides);
  compressScalar<Sha512>(chain.sha512, data, strides);
}

}  // namespace

const Kernel kPortable = {
    .name = "portable",
    .supported = [] { return true; },
    .both = both,
    .sha256 = compressScalar<Sha256>,
    .sha512 = compressScalar<Sha512>,
};

}  // namespace pdfseal
