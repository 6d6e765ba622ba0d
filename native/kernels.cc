#include "kernels.h"

namespace pdfseal {

std::span<const Kernel* const> compiledKernels() {
#if defined(__x86_64__)
  static constexpr const Kernel* kernels[] = {&kOpenSsl, &kPortable, &kAvx2, &kAvx2Sha, &kAvx512, &kAvx512Sha};
#elif defined(__aarch64__)
  static constexpr const Kernel* kernels[] = {&kOpenSsl, &kPortable, &kArm64Sha256, &kArm64Sha512};
#else
  static constexpr const Kernel* kernels[] = {&kOpenSsl, &kPortable};
#endif
  return kernels;
}

}  // namespace pdfseal
