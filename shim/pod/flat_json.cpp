#include "pod/flat_json.h"

#include <yyjson.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/json.h"

namespace rankshim::json {
namespace {

std::string_view text_of(yyjson_val* value) {
  if (yyjson_is_bool(value)) return yyjson_get_bool(value) ? "true" : "false";
  if (yyjson_is_raw(value)) return {yyjson_get_raw(value), yyjson_get_len(value)};
  return {yyjson_get_str(value), yyjson_get_len(value)};
}

class JsonFlattener {
 public:
  flat::Document flatten(yyjson_val* root) {
    add(root, "", 0);
    return builder_.take();
  }

 private:
  // The depth is bounded.  NOLINTNEXTLINE(misc-no-recursion)
  void add(yyjson_val* value, const std::string& path, unsigned depth) {
    if (!builder_.visit(path, depth, 1)) return;
    std::size_t index = 0, count = 0;
    yyjson_val *name = nullptr, *member = nullptr;
    if (yyjson_is_obj(value)) {
      yyjson_obj_foreach(value, index, count, name, member)
          add(member, flat::below(path, text_of(name)), depth + 1);
    } else if (yyjson_is_arr(value)) {
      yyjson_arr_foreach(value, index, count, member)
          add(member, flat::below(path, std::to_string(index)), depth + 1);
    } else if (!yyjson_is_null(value)) {
      builder_.add(path, std::string(text_of(value)));
    }
  }

  flat::Builder builder_;
};

}  // namespace

flat::Document read_flat(std::string_view text) {
  std::string copy(text);
  yyjson_read_err error{};
  const ReadDocument document(
      yyjson_read_opts(copy.data(), copy.size(), YYJSON_READ_NUMBER_AS_RAW, nullptr, &error));
  if (!document) {
    const std::string_view before = text.substr(0, error.pos);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    return flat::Mistake{static_cast<unsigned>(lines) + 1,
                         std::string("it is not JSON: ") + (error.msg == nullptr ? "" : error.msg)};
  }
  return JsonFlattener().flatten(yyjson_doc_get_root(document.get()));
}

}  // namespace rankshim::json
