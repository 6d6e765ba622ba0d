// OpenSSL's own code, from the Node that has loaded the add-on: one stream, one hash after the other. It
// supports processors on which the other kernels were never tested, so that the fastest measured kernel is
// never slower than OpenSSL.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels.h"

// As in <openssl/sha.h>, whose layout has not changed since OpenSSL 0.9.8; if it did, the self-test would
// fail. Weak symbols: if a Node does not export them, this kernel is not supported.
extern "C" {
struct SHA256state_st {
  std::uint32_t h[8], lengthLow, lengthHigh, partial[16];
  unsigned partialBytes, digestBytes;
};
struct SHA512state_st {
  std::uint64_t h[8], lengthLow, lengthHigh, partial[16];
  unsigned partialBytes, digestBytes;
};
[[gnu::weak]] int SHA256_Update(SHA256state_st* context, const void* data, std::size_t bytes);
[[gnu::weak]] int SHA512_Update(SHA512state_st* context, const void* data, std::size_t bytes);
}

namespace pdfseal {
namespace {

// Only whole blocks, so that the chaining value is the only state.
template <class Context, class Word>
void update(int (*function)(Context*, const void*, std::size_t), Word* chain, const std::uint8_t* data,
            std::size_t blocks) {
  Context context = {};
  std::memcpy(context.h, chain, sizeof context.h);
  function(&context, data, blocks * 16 * sizeof(Word));
  std::memcpy(chain, context.h, sizeof context.h);
}

void sha256(std::uint32_t* chain, const std::uint8_t* data, std::size_t blocks) {
  update(SHA256_Update, chain, data, blocks);
}

void sha512(std::uint64_t* chain, const std::uint8_t* data, std::size_t blocks) {
  update(SHA512_Update, chain, data, blocks);
}

// Alternates between the hashes, so that bytes are still in the nearest cache when they are read again.
void both(Chain& chain, const std::uint8_t* data, std::size_t strides) {
  constexpr std::size_t kTurnStrides = 64;
  while (strides > 0) {
    const std::size_t turn = strides < kTurnStrides ? strides : kTurnStrides;
    sha256(chain.sha256, data, 2 * turn);
    sha512(chain.sha512, data, turn);
    data += turn * kStrideBytes;
    strides -= turn;
  }
}

}  // namespace

const Kernel kOpenSsl = {
    .name = "openssl",
    .supported = [] { return SHA256_Update != nullptr && SHA512_Update != nullptr; },
    .both = both,
    .sha256 = sha256,
    .sha512 = sha512,
};

}  // namespace pdfseal
