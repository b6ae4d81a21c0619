#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Packs the profiles' documents to a third of their size, 33 kB of 95 kB: only `rankshim platforms NAME`
/// reads them, and the binary has a size limit. Each bit is predicted from the last one to six bytes and from
/// the word so far, the predictions are mixed by how good they were, and an arithmetic coder stores what the
/// prediction leaves open (Mahoney, "Adaptive Weighing of Context Models for Lossless Data Compression",
/// 2005). It uses integers only, because one machine packs and another unpacks. It unpacks about 100 kB a
/// second, which is fast enough for that command.
namespace rankshim::platform {

/// Predicts the next bit of a text. Packing and unpacking feed it the same bits.
class BitModel {
 public:
  BitModel() : contexts_(orders * table_size, 1U << 31U) { weights_.fill(1 << 14); }

  /// The chance of a 1, of 4096; at least 1 and at most 4095.
  std::uint32_t chance() {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < orders; ++i) {
      slots_[i] = i * table_size + ((hashes_[i] + partial_ * 0x9E3779B1U) * 0x2545F491U >> 16U);
      inputs_[i] = stretch(contexts_[slots_[i]] >> 20U);
      sum += std::int64_t{inputs_[i]} * weights_[i];
    }
    chance_ = squash(static_cast<int>(sum >> 16));
    return chance_;
  }

  void update(unsigned bit) {
    const int error = (static_cast<int>(bit << 12U) - static_cast<int>(chance_)) * 14;
    for (std::size_t i = 0; i < orders; ++i) {
      weights_[i] += (inputs_[i] * error + 0x200) >> 10;
      // 22 bits of chance and 10 bits of how often this context occurred: a rare context learns fast.
      std::uint32_t& slot = contexts_[slots_[i]];
      const std::uint32_t seen = slot & 1023U;
      const std::int64_t chance = slot >> 10U, target = bit != 0 ? 4194303 : 0;
      const auto next = static_cast<std::uint32_t>(chance + (target - chance) * 2 / (2 * seen + 3));
      slot = next << 10U | (seen < 60 ? seen + 1 : seen);
    }
    partial_ = partial_ << 1U | bit;
    if (partial_ < 256) return;
    const std::uint32_t byte = partial_ & 255U;
    partial_ = 1;
    last_ = last_ << 8U | byte;
    const bool letter = (byte | 32U) >= 'a' && (byte | 32U) <= 'z';
    word_ = letter ? (word_ + byte) * 0x2F0B4C47U : 0;
    constexpr std::array<unsigned, orders - 1> bytes = {1, 2, 3, 4, 6};
    for (std::size_t i = 0; i + 1 < orders; ++i)
      hashes_[i] =
          static_cast<std::uint32_t>((last_ << (64U - 8U * bytes[i])) * 0x9E3779B97F4A7C15ULL >> 32U);
    hashes_[orders - 1] = word_ + (byte << 24U);
  }

 private:
  static constexpr std::size_t orders = 6, table_size = 1 << 16;

  /// 4096 / (1 + e^(−x/256)), interpolated between 33 points.
  static std::uint32_t squash(int x) {
    constexpr std::array<std::uint16_t, 33> points = {
        1,    2,    3,    6,    10,   16,   27,   45,   73,   120,  194,  310,  488,  747,  1101, 1546, 2047,
        2549, 2994, 3348, 3607, 3785, 3901, 3975, 4024, 4050, 4068, 4079, 4085, 4089, 4092, 4093, 4094};
    if (x > 2047) return 4095;
    if (x < -2047) return 1;
    const auto at = static_cast<std::uint32_t>(x + 2048);
    const std::uint32_t part = at & 127U, left = at >> 7U;
    return (points[left] * (128 - part) + points[left + 1] * part + 64) >> 7U;
  }

  /// The inverse of squash: the x whose squash is nearest.
  static int stretch(std::uint32_t chance) {
    int low = -2047, high = 2047;
    while (low < high) {
      const int middle = (low + high) >> 1;
      if (squash(middle) < chance)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  std::vector<std::uint32_t> contexts_;
  std::array<int, orders> weights_{}, inputs_{};
  std::array<std::size_t, orders> slots_{};
  std::array<std::uint32_t, orders> hashes_{};
  std::uint32_t chance_ = 0, partial_ = 1, word_ = 0;
  std::uint64_t last_ = 0;
};

/// The border between `low` and `high`: a 1 is below it, a 0 above it.
inline std::uint32_t split(std::uint32_t low, std::uint32_t high, std::uint32_t chance) {
  return low + static_cast<std::uint32_t>(std::uint64_t{high - low} * chance >> 12U);
}

inline std::string pack(std::string_view text) {
  BitModel model;
  std::string packed;
  std::uint32_t low = 0, high = 0xFFFFFFFFU;
  const auto put = [&] { packed += static_cast<char>(high >> 24U); };
  for (const char c : text) {
    for (unsigned i = 8; i-- > 0;) {
      const unsigned bit = static_cast<unsigned char>(c) >> i & 1U;
      const std::uint32_t middle = split(low, high, model.chance());
      (bit != 0 ? high : low) = bit != 0 ? middle : middle + 1;
      model.update(bit);
      for (; (low ^ high) < 1U << 24U; low <<= 8U, high = high << 8U | 255U) put();
    }
  }
  for (int i = 0; i < 4; ++i, high <<= 8U) put();
  return packed;
}

/// The `size` bytes of text that were packed.
inline std::string unpack(std::string_view packed, std::size_t size) {
  BitModel model;
  std::string text;
  std::uint32_t low = 0, high = 0xFFFFFFFFU, at = 0;
  std::size_t next = 0;
  const auto take = [&] {
    at = at << 8U | (next < packed.size() ? static_cast<unsigned char>(packed[next]) : 0U);
    ++next;
  };
  for (int i = 0; i < 4; ++i) take();
  while (text.size() < size) {
    unsigned byte = 0;
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t middle = split(low, high, model.chance());
      const unsigned bit = at <= middle ? 1 : 0;
      (bit != 0 ? high : low) = bit != 0 ? middle : middle + 1;
      model.update(bit);
      byte = byte << 1U | bit;
      for (; (low ^ high) < 1U << 24U; low <<= 8U, high = high << 8U | 255U) take();
    }
    text += static_cast<char>(byte);
  }
  return text;
}

}  // namespace rankshim::platform
