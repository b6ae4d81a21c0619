#include "link/proof.h"

#include <fmt/format.h>
#include <monocypher.h>
#include <sys/random.h>

#include <cerrno>
#include <system_error>

#include "base/files.h"
#include "base/text.h"

namespace rankshim::link {
namespace {

const std::uint8_t* data_of(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace

Key::Key(std::string_view secret) {
  crypto_blake2b(bytes_.data(), bytes_.size(), data_of(secret), secret.size());
}

std::string Key::tag(std::initializer_list<std::string_view> parts) const {
  crypto_blake2b_ctx context;
  crypto_blake2b_keyed_init(&context, tag_size, bytes_.data(), bytes_.size());
  for (const std::string_view part : parts) crypto_blake2b_update(&context, data_of(part), part.size());
  std::array<std::uint8_t, tag_size> hash{};
  crypto_blake2b_final(&context, hash.data());
  return {hash.begin(), hash.end()};
}

Key Key::for_connection(std::string_view hello, std::string_view welcome) const {
  return Key(tag({"rankshim/1", hello, welcome}));  // each frame begins with its length
}

std::string Key::of_frame(char direction, std::uint64_t counter, std::string_view frame) const {
  std::string head(1, direction);
  for (unsigned shift = 64; shift > 0; shift -= 8) head += static_cast<char>(counter >> (shift - 8) & 0xFFU);
  return tag({head, frame});
}

bool same_tag(std::string_view one, std::string_view other) {
  return one.size() == Key::tag_size && other.size() == Key::tag_size &&
         crypto_verify32(data_of(one), data_of(other)) == 0;
}

Outcome<Key> read_token(const std::string& path) {
  constexpr std::size_t shortest = 16;
  const auto fault = [&](const std::string& why) {
    return Faults{{Anchor::job_token,
                   "the job's token cannot be had from the file " + in_quotes(path) + ": " + why,
                   {path},
                   "write a secret of at least 16 bytes into it, the same on all nodes, or leave "
                   "--job-token-file out"}};
  };
  const auto read = read_file(path);
  if (const auto* unreadable = std::get_if<Unreadable>(&read)) return fault(unreadable->why());
  const std::string_view token = trimmed(std::get<std::string>(read));
  if (token.size() < shortest) return fault(fmt::format("it has {} bytes", token.size()));
  return Key(token);
}

std::string random_number() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::system_category(), "getrandom");
  std::string digits;
  for (const unsigned byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

}  // namespace rankshim::link
