// SHA-256 and SHA-512 read straight from FIPS 180-4, slow and with nothing of native/ but its constants: what
// the kernels and the lane scheduler are held to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../../native/constants.h"

namespace reference {

template <class Word>
struct Hash;

template <>
struct Hash<std::uint32_t> {
  static constexpr int kSum0[] = {2, 13, 22}, kSum1[] = {6, 11, 25}, kSmall0[] = {7, 18, 3},
                       kSmall1[] = {17, 19, 10};
  static constexpr std::span initial = pdfseal::kInitial256;
  static constexpr std::span rounds = pdfseal::kRound256;
};

template <>
struct Hash<std::uint64_t> {
  static constexpr int kSum0[] = {28, 34, 39}, kSum1[] = {14, 18, 41}, kSmall0[] = {1, 8, 7},
                       kSmall1[] = {19, 61, 6};
  static constexpr std::span initial = pdfseal::kInitial512;
  static constexpr std::span rounds = pdfseal::kRound512;
};

template <class Word>
Word rotate(Word x, int n) {
  return x >> n | x << (8 * sizeof(Word) - n);
}

template <class Word>
Word sum(Word x, const int (&n)[3]) {
  return rotate(x, n[0]) ^ rotate(x, n[1]) ^ rotate(x, n[2]);
}

template <class Word>
Word small(Word x, const int (&n)[3]) {
  return rotate(x, n[0]) ^ rotate(x, n[1]) ^ x >> n[2];
}

// Section 5.1: a one bit, zeros, and the length in bits, in two words.
template <class Word>
std::vector<std::uint8_t> pad(std::span<const std::uint8_t> message) {
  constexpr std::size_t kBlockBytes = 16 * sizeof(Word);
  std::vector<std::uint8_t> padded(message.begin(), message.end());
  padded.push_back(0x80);
  while (padded.size() % kBlockBytes != kBlockBytes - 2 * sizeof(Word)) padded.push_back(0);
  padded.insert(padded.end(), 2 * sizeof(Word) - 8, 0);
  for (int shift = 56; shift >= 0; shift -= 8)
    padded.push_back(static_cast<std::uint8_t>(message.size() * 8 >> shift));
  return padded;
}

// Section 6.2.2 and 6.4.2.
template <class Word>
void compress(std::vector<Word>& h, std::span<const std::uint8_t> block) {
  using H = Hash<Word>;
  std::vector<Word> w(H::rounds.size());
  for (std::size_t t = 0; t < w.size(); t++) {
    if (t >= 16) {
      w[t] = small(w[t - 2], H::kSmall1) + w[t - 7] + small(w[t - 15], H::kSmall0) + w[t - 16];
    } else {
      for (std::uint8_t byte : block.subspan(t * sizeof(Word), sizeof(Word)))
        w[t] = static_cast<Word>(w[t] << 8 | byte);
    }
  }
  std::vector<Word> s = h;
  for (std::size_t t = 0; t < w.size(); t++) {
    const Word a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6];
    const Word t1 = s[7] + sum(e, H::kSum1) + ((e & f) ^ (~e & g)) + H::rounds[t] + w[t];
    const Word t2 = sum(a, H::kSum0) + ((a & b) ^ (a & c) ^ (b & c));
    s = {t1 + t2, a, b, c, d + t1, e, f, g};
  }
  for (std::size_t i = 0; i < h.size(); i++) h[i] += s[i];
}

template <class Word>
std::vector<std::uint8_t> digest(std::span<const std::uint8_t> message) {
  std::vector<Word> h(Hash<Word>::initial.begin(), Hash<Word>::initial.end());
  const std::vector<std::uint8_t> padded = pad<Word>(message);
  const std::span<const std::uint8_t> blocks = padded;
  for (std::size_t at = 0; at < blocks.size(); at += 16 * sizeof(Word))
    compress(h, blocks.subspan(at, 16 * sizeof(Word)));
  std::vector<std::uint8_t> out;
  for (Word word : h) {
    for (int shift = 8 * sizeof(Word) - 8; shift >= 0; shift -= 8)
      out.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  return out;
}

}  // namespace reference
