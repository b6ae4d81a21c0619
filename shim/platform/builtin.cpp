#include "platform/builtin.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "platform/packed_text.h"
#include "platform/recognise.h"

namespace rankshim::platform {
namespace {

using namespace std::string_view_literals;

// The profiles are tables made at build time. Reading their documents at the start would cost 25 million
// instructions (callgrind), eleven times what all of `rankshim env` takes with a PyTorchJob's environment.
#include "builtin_profiles.inc"

}  // namespace

std::span<const Profile> builtin_profiles() { return all_profiles; }

std::string builtin_document(std::string_view name) {
  if (find(all_profiles, name) == nullptr) return {};
  // All documents are packed as one, which makes each smaller; each ends with a NUL.
  std::string rest = unpack(packed_documents, documents_size);
  for (const Profile& profile : all_profiles) {
    const auto end = std::min(rest.find('\0'), rest.size());
    if (profile.name() == name) return rest.substr(0, end);
    rest.erase(0, end + 1);
  }
  return {};
}

}  // namespace rankshim::platform
