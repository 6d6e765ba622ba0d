#include "self_test.h"

#include <array>
#include <cstring>

#include "stream.h"

namespace pdfseal {
namespace {

constexpr std::size_t kDocuments = 41;

// FIPS 180's example "abc", and the digests of the digests of all documents below, made with OpenSSL.
constexpr std::uint8_t kAbc256[32] = {
    0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
    0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
};
constexpr std::uint8_t kAll256[32] = {
    0xdd, 0x65, 0xee, 0xd8, 0x37, 0xf7, 0x06, 0xc6, 0x45, 0x27, 0x11, 0x06, 0xb5, 0x2f, 0x1c, 0x71,
    0xb3, 0x32, 0x6d, 0x38, 0x55, 0xef, 0x43, 0x0e, 0x50, 0x71, 0xeb, 0x56, 0x35, 0xe7, 0xbd, 0xfb,
};
constexpr std::uint8_t kAll512[64] = {
    0x31, 0xc3, 0xdd, 0x64, 0xf8, 0x9a, 0xac, 0x9d, 0x80, 0x7d, 0x6a, 0x97, 0x07, 0xb2, 0xa3, 0x9e,
    0xa8, 0xa4, 0xcb, 0x9c, 0xb2, 0x88, 0x4c, 0xc2, 0xde, 0x11, 0x67, 0x25, 0x1e, 0x5a, 0x08, 0xd6,
    0xe3, 0x82, 0x2d, 0x31, 0x8c, 0x7f, 0x32, 0x6f, 0xdf, 0xc0, 0xd5, 0xcd, 0x4e, 0x4a, 0x92, 0x85,
    0xcd, 0x14, 0x40, 0x7a, 0x43, 0x0e, 0x7f, 0x92, 0x1c, 0xfb, 0x3c, 0x26, 0x83, 0x44, 0x2f, 0xd7,
};

Digests hashOne(const Kernel& kernel, std::span<const std::uint8_t> bytes) {
  Piece piece = {State::initial(), {bytes}, true, {}};
  hashPieces(kernel, {&piece, 1});
  return piece.digests;
}

// Document i is 61 * i bytes of the text from its byte i on, in two pieces, the second one of two chunks.
std::array<Piece, kDocuments> hashDocuments(const Kernel& kernel, std::span<const std::uint8_t> text) {
  std::array<Piece, kDocuments> pieces = {};
  for (std::size_t i = 0; i < kDocuments; i++)
    pieces[i] = {State::initial(), {text.subspan(i, 20 * i)}, false, {}};
  hashPieces(kernel, pieces);
  for (std::size_t i = 0; i < kDocuments; i++) {
    pieces[i].chunks = {text.subspan(21 * i, 40 * i), text.subspan(61 * i, i)};
    pieces[i].last = true;
  }
  hashPieces(kernel, pieces);
  return pieces;
}

}  // namespace

bool selfTest(const Kernel& kernel) {
  constexpr std::uint8_t abc[] = {'a', 'b', 'c'};
  if (std::memcmp(hashOne(kernel, abc).sha256, kAbc256, sizeof kAbc256) != 0) return false;

  std::array<std::uint8_t, 4096> text;
  for (std::size_t i = 0; i < text.size(); i++) text[i] = static_cast<std::uint8_t>(i * 167 + (i >> 8) * 13);
  std::array<std::uint8_t, 32 * kDocuments> all256;
  std::array<std::uint8_t, 64 * kDocuments> all512;
  const auto pieces = hashDocuments(kernel, text);
  for (std::size_t i = 0; i < kDocuments; i++) {
    std::memcpy(all256.data() + 32 * i, pieces[i].digests.sha256, 32);
    std::memcpy(all512.data() + 64 * i, pieces[i].digests.sha512, 64);
  }
  return std::memcmp(hashOne(kernel, all256).sha256, kAll256, sizeof kAll256) == 0 &&
         std::memcmp(hashOne(kernel, all512).sha512, kAll512, sizeof kAll512) == 0;
}

}  // namespace pdfseal
