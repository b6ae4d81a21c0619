#include "pod/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rankshim::yaml {
namespace {

struct FreeParser {
  void operator()(yaml_parser_t* parser) const { yaml_parser_delete(parser); }
};

struct FreeEvent {
  void operator()(yaml_event_t* event) const { yaml_event_delete(event); }
};

unsigned line_of(const yaml_mark_t& mark) { return static_cast<unsigned>(mark.line) + 1; }

std::string_view text_of(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(text));
}

std::string_view text_of(const yaml_event_t& scalar) {
  return {reinterpret_cast<const char*>(scalar.data.scalar.value), scalar.data.scalar.length};
}

bool is_null(const yaml_event_t& scalar) {
  if (scalar.data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
  const std::string_view text = text_of(scalar);
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// libyaml gives what it was reading, and since which line, and then what it found.
std::string mistake(const yaml_parser_t& parser) {
  const unsigned line = line_of(parser.problem_mark), since = line_of(parser.context_mark);
  std::string what = "it is not YAML: ";
  if (parser.context != nullptr) {
    what += parser.context;
    if (since != line) what.append(" from line ").append(std::to_string(since));
    what += ", ";
  }
  return what.append(parser.problem == nullptr ? "the system refuses memory" : parser.problem);
}

/// Takes libyaml's events one by one: a document that is too deep or too large is left at once, because
/// libyaml takes a minute for 200 kB of opening brackets.
class YamlFlattener {
 public:
  flat::Document read(yaml_parser_t& parser) {
    for (bool more = true; more;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser, &event) == 0) {
        builder_.fail(line_of(parser.problem_mark), mistake(parser));
        break;
      }
      const std::unique_ptr<yaml_event_t, FreeEvent> free_event(&event);
      more = take(event);
    }
    return builder_.take();
  }

 private:
  /// A list or mapping that has not ended.
  struct Open {
    std::string path;
    bool is_mapping = false;
    std::size_t items = 0;
    std::optional<std::string> key;  ///< of a mapping, whose value comes next
  };

  /// What an anchor names: the entries of one node.
  struct Anchor {
    std::string name;
    std::size_t path_size = 0;
    std::size_t begin = 0;
    std::optional<std::size_t> end;  ///< none while the node has not ended
  };

  /// False after the document's end, or after a mistake.
  bool take(const yaml_event_t& event) {
    const unsigned line = line_of(event.start_mark);
    switch (event.type) {
      case YAML_SCALAR_EVENT:
        if (is_key_next()) {
          open_.back().key = text_of(event);
          return true;
        }
        return take_scalar(event, line);
      case YAML_ALIAS_EVENT:
        return take_alias(text_of(event.data.alias.anchor), line);
      case YAML_SEQUENCE_START_EVENT:
        return begin(false, event.data.sequence_start.anchor, line);
      case YAML_MAPPING_START_EVENT:
        return begin(true, event.data.mapping_start.anchor, line);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        close_anchors(open_.back().path.size());
        open_.pop_back();
        return true;
      case YAML_DOCUMENT_END_EVENT:
      case YAML_STREAM_END_EVENT:
        return false;
      default:
        return true;
    }
  }

  [[nodiscard]] bool is_key_next() const {
    return !open_.empty() && open_.back().is_mapping && !open_.back().key;
  }

  /// The path of the value that comes next.
  std::string next_path() {
    if (open_.empty()) return {};
    Open& parent = open_.back();
    if (!parent.is_mapping) return flat::below(parent.path, std::to_string(parent.items++));
    std::string path = flat::below(parent.path, *parent.key);
    parent.key.reset();
    return path;
  }

  bool take_scalar(const yaml_event_t& event, unsigned line) {
    std::string path = next_path();
    if (!visit(path, line)) return false;
    name(event.data.scalar.anchor, path);
    if (!is_null(event)) builder_.add(path, std::string(text_of(event)));
    close_anchors(path.size());
    return true;
  }

  bool begin(bool is_mapping, const yaml_char_t* anchor, unsigned line) {
    if (is_key_next()) return builder_.fail(line, "a key is a list or a mapping");
    std::string path = next_path();
    if (!visit(path, line)) return false;
    name(anchor, path);
    open_.push_back({std::move(path), is_mapping, 0, std::nullopt});
    return true;
  }

  /// Adds the entries of the node with that anchor again, below the path of the alias.
  bool take_alias(std::string_view anchor, unsigned line) {
    if (is_key_next()) return builder_.fail(line, "a key is an alias");
    const auto found = std::find_if(anchors_.rbegin(), anchors_.rend(),
                                    [&](const Anchor& known) { return known.name == anchor; });
    if (found == anchors_.rend() || !found->end)
      return builder_.fail(line, "no node with the anchor " + std::string(anchor) + " has ended before");
    const std::string path = next_path();
    if (!visit(path, line)) return false;
    for (std::size_t i = found->begin; i < *found->end; ++i) {
      const flat::Entry entry = builder_.entries()[i];
      std::string copy = path + entry.path.substr(found->path_size);
      if (!visit(copy, line)) return false;
      builder_.add(std::move(copy), entry.text);
    }
    return true;
  }

  bool visit(const std::string& path, unsigned line) {
    return builder_.visit(path, static_cast<unsigned>(open_.size()), line);
  }

  void name(const yaml_char_t* anchor, const std::string& path) {
    if (anchor != nullptr)
      anchors_.push_back(
          {std::string(text_of(anchor)), path.size(), builder_.entries().size(), std::nullopt});
  }

  /// The node whose path has that size has ended. The nodes below it have longer paths, and have ended
  /// before.
  void close_anchors(std::size_t path_size) {
    for (auto anchor = anchors_.rbegin(); anchor != anchors_.rend() && anchor->path_size >= path_size;
         ++anchor)
      if (!anchor->end) anchor->end = builder_.entries().size();
  }

  flat::Builder builder_;
  std::vector<Open> open_;
  std::vector<Anchor> anchors_;
};

}  // namespace

flat::Document read(std::string_view text) {
  yaml_parser_t parser;
  if (yaml_parser_initialize(&parser) == 0) return flat::Mistake{1, "the system refuses memory"};
  const std::unique_ptr<yaml_parser_t, FreeParser> free_parser(&parser);
  yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return YamlFlattener().read(parser);
}

}  // namespace rankshim::yaml
