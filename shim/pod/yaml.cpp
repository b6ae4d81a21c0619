#include "pod/yaml.h"

#include <yaml.h>

#include <memory>
#include <string>

namespace rankshim::yaml {
namespace {

struct FreeParser {
  void operator()(yaml_parser_t* parser) const { yaml_parser_delete(parser); }
};

struct FreeDocument {
  void operator()(yaml_document_t* document) const { yaml_document_delete(document); }
};

unsigned line_of(const yaml_mark_t& mark) { return static_cast<unsigned>(mark.line) + 1; }

std::string_view text_of(const yaml_node_t& scalar) {
  return {reinterpret_cast<const char*>(scalar.data.scalar.value), scalar.data.scalar.length};
}

bool is_null(const yaml_node_t& scalar) {
  if (scalar.data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
  const std::string_view text = text_of(scalar);
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

class Flattener {
 public:
  explicit Flattener(yaml_document_t& document) : document_(document) {}

  flat::Document flatten() {
    if (const yaml_node_t* root = yaml_document_get_root_node(&document_)) add(*root, "", 0);
    return builder_.take();
  }

 private:
  // The depth is bounded.  NOLINTNEXTLINE(misc-no-recursion)
  void add(const yaml_node_t& node, const std::string& path, unsigned depth) {
    const unsigned line = line_of(node.start_mark);
    if (!builder_.visit(path, depth, line)) return;
    if (node.type == YAML_SCALAR_NODE) {
      if (!is_null(node)) builder_.add(path, std::string(text_of(node)));
    } else if (node.type == YAML_SEQUENCE_NODE) {
      const auto& items = node.data.sequence.items;
      for (const yaml_node_item_t* item = items.start; item != items.top; ++item)
        add(node_at(*item), flat::below(path, std::to_string(item - items.start)), depth + 1);
    } else {
      const auto& pairs = node.data.mapping.pairs;
      for (const yaml_node_pair_t* pair = pairs.start; pair != pairs.top; ++pair) {
        const yaml_node_t& key = node_at(pair->key);
        if (key.type != YAML_SCALAR_NODE) {
          builder_.fail(line_of(key.start_mark), "a key is a list or a mapping");
          return;
        }
        add(node_at(pair->value), flat::below(path, text_of(key)), depth + 1);
      }
    }
  }

  [[nodiscard]] const yaml_node_t& node_at(int index) const {
    return *yaml_document_get_node(&document_, index);
  }

  yaml_document_t& document_;
  flat::Builder builder_;
};

/// libyaml says what it was reading, and since which line, and then what it found.
flat::Mistake mistake(const yaml_parser_t& parser) {
  const unsigned line = line_of(parser.problem_mark), since = line_of(parser.context_mark);
  std::string what = "it is not YAML: ";
  if (parser.context != nullptr) {
    what += parser.context;
    if (since != line) what.append(" from line ").append(std::to_string(since));
    what += ", ";
  }
  return {line, what.append(parser.problem == nullptr ? "the system refuses memory" : parser.problem)};
}

}  // namespace

flat::Document read(std::string_view text) {
  yaml_parser_t parser;
  if (yaml_parser_initialize(&parser) == 0) return flat::Mistake{1, "the system refuses memory"};
  const std::unique_ptr<yaml_parser_t, FreeParser> free_parser(&parser);
  yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  yaml_document_t document;
  if (yaml_parser_load(&parser, &document) == 0) return mistake(parser);
  const std::unique_ptr<yaml_document_t, FreeDocument> free_document(&document);
  return Flattener(document).flatten();
}

}  // namespace rankshim::yaml
