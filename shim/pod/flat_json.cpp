#include "pod/flat_json.h"

#include <yyjson.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace rankshim::json {
namespace {

struct FreeDocument {
  void operator()(yyjson_doc* document) const { yyjson_doc_free(document); }
};

std::string_view text_of(yyjson_val* value) {
  if (yyjson_is_bool(value)) return yyjson_get_bool(value) ? "true" : "false";
  if (yyjson_is_raw(value)) return {yyjson_get_raw(value), yyjson_get_len(value)};
  return {yyjson_get_str(value), yyjson_get_len(value)};
}

class Flattener {
 public:
  flat::Document flatten(yyjson_val* root) {
    add(root, "", 0);
    if (mistake_) return std::move(*mistake_);
    return std::move(entries_);
  }

 private:
  void fail(std::string what) {
    if (!mistake_) mistake_ = flat::Mistake{1, std::move(what)};
  }

  // The depth is bounded.  NOLINTNEXTLINE(misc-no-recursion)
  void add(yyjson_val* value, const std::string& path, unsigned depth) {
    if (mistake_ || yyjson_is_null(value)) return;
    if (depth > flat::deepest) return fail("the document is too deep");
    const std::string before = path.empty() ? "" : path + ".";
    std::size_t index = 0, count = 0;
    yyjson_val *name = nullptr, *member = nullptr;
    if (yyjson_is_obj(value)) {
      yyjson_obj_foreach(value, index, count, name, member)
          add(member, before + std::string(text_of(name)), depth + 1);
    } else if (yyjson_is_arr(value)) {
      yyjson_arr_foreach(value, index, count, member) add(member, before + std::to_string(index), depth + 1);
    } else {
      path_bytes_ += path.size();
      if (entries_.size() >= flat::most_entries || path_bytes_ > flat::most_path_bytes)
        return fail("the document is too large");
      entries_.push_back({path, std::string(text_of(value))});
    }
  }

  std::vector<flat::Entry> entries_;
  std::size_t path_bytes_ = 0;
  std::optional<flat::Mistake> mistake_;
};

}  // namespace

flat::Document read_flat(std::string_view text) {
  std::string copy(text);
  yyjson_read_err error{};
  const std::unique_ptr<yyjson_doc, FreeDocument> document(
      yyjson_read_opts(copy.data(), copy.size(), YYJSON_READ_NUMBER_AS_RAW, nullptr, &error));
  if (!document) {
    const std::string_view before = text.substr(0, error.pos);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    return flat::Mistake{static_cast<unsigned>(lines) + 1,
                         std::string("it is not JSON: ") + (error.msg == nullptr ? "" : error.msg)};
  }
  return Flattener().flatten(yyjson_doc_get_root(document.get()));
}

}  // namespace rankshim::json
