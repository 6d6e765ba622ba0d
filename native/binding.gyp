{
  "targets": [
    {
      "target_name": "pdfseal_hash",
      "sources": [
        "addon.cc",
        "arm64_sha256.cc",
        "arm64_sha512.cc",
        "kernels.cc",
        "lane_scheduler.cc",
        "measure.cc",
        "openssl.cc",
        "portable.cc",
        "self_test.cc",
        "stream.cc",
        "threads.cc",
        "values.cc",
        "x86_avx2.cc",
        "x86_avx512.cc",
        "x86_avx512_sha.cc",
        "x86_sha.cc"
      ],
      "defines": ["NAPI_VERSION=8"],
      # The integer kernels need every register.
      "cflags!": ["-fno-omit-frame-pointer"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20", "-fno-strict-aliasing"],
      "cflags_cc": [
        "-std=c++20",
        "-O3",
        "-fomit-frame-pointer",
        # The kernels are written in the order that processors like.
        "-fno-tree-reassoc",
        "-fno-schedule-insns2",
        # A loop that a compiler turned into vectors would leave upper halves of registers dirty.
        "-fno-tree-vectorize",
        "-Wall",
        "-Wextra",
        # The functions this is about are all inlined.
        "-Wno-psabi",
        "-fvisibility=hidden"
      ]
    },
    {
      "target_name": "pdfseal_notify",
      "sources": ["lifeline.cc", "module.cc", "notify.cc", "pin.cc"],
      "include_dirs": ["../node_modules/pkcs11js/includes"],
      "defines": ["NAPI_VERSION=8"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20"],
      "cflags_cc": ["-std=c++20", "-Wall", "-Wextra", "-fvisibility=hidden"]
    }
  ]
}
