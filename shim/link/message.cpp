#include "link/message.h"

#include <fmt/format.h>
#include <yyjson.h>

#include <algorithm>
#include <boost/describe.hpp>
#include <boost/mp11/algorithm.hpp>
#include <concepts>
#include <memory>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace rankshim::link {

// What is on the wire.
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (run, attempt, restarts, job_restarts, instance, session, rank, nnodes, workers,
                       launcher, master, port, address, host, pod, platform_node, version, nonce))
BOOST_DESCRIBE_STRUCT(Welcome, (), (session, host, address, seen, port, nonce))
BOOST_DESCRIBE_STRUCT(Proof, (), ())
BOOST_DESCRIBE_STRUCT(Waiting, (), (nnodes, count, missing, note))
BOOST_DESCRIBE_STRUCT(Refuse, (), (code, sentence))
BOOST_DESCRIBE_STRUCT(Go, (), (attempt, offset, world))
BOOST_DESCRIBE_STRUCT(Failure, (), (rank, cause, code, text, node, host))
BOOST_DESCRIBE_STRUCT(Stop, (), (culprit, again, note))
BOOST_DESCRIBE_STRUCT(Stopping, (), (signal))
BOOST_DESCRIBE_STRUCT(WorkerDone, (), (local_rank, code, age))
BOOST_DESCRIBE_STRUCT(Done, (), (code, workers))
BOOST_DESCRIBE_STRUCT(End, (), ())
BOOST_DESCRIBE_STRUCT(Ping, (), ())
BOOST_DESCRIBE_STRUCT(Pong, (), ())

namespace {

constexpr std::size_t longest_text = 1024;
constexpr std::size_t most_elements = 60;  // of a list: so the longest one fits into a body

/// Calls `with` for each member that a struct has on the wire.
template <class Struct>
void each_member(auto with) {
  boost::mp11::mp_for_each<boost::describe::describe_members<Struct, boost::describe::mod_public>>(with);
}

// A value as JSON. No text in it is longer than `longest`.

std::string written(const std::string& text, std::size_t longest) {
  return json::quote(cut(printable(text), longest));
}
template <std::integral Number>
std::string written(const Number& number, std::size_t /*longest*/) {
  return fmt::format("{}", number);
}
template <class Struct>
std::string written(const Struct& from, std::size_t longest);
template <class Element>
std::string written(const std::vector<Element>& list, std::size_t longest) {
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < std::min(list.size(), most_elements); ++i)
    elements.push_back(written(list[i], longest));
  return '[' + joined(elements, ",") + ']';
}
template <class Struct>
std::string written(const Struct& from, std::size_t longest) {
  std::vector<std::string> members;
  const auto add = [&](const char* name, const auto& value) {
    members.push_back(fmt::format("\"{}\":{}", name, written(value, longest)));
  };
  each_member<Struct>([&](auto member) {
    const auto& value = from.*member.pointer;
    if constexpr (requires { value.value(); }) {
      if (value) add(member.name, *value);
    } else {
      add(member.name, value);
    }
  });
  return '{' + joined(members, ",") + '}';
}

// A value from JSON: false if it is of another kind.

bool take(yyjson_val* value, std::string& text) {
  if (yyjson_is_str(value))
    text = cut(printable({yyjson_get_str(value), yyjson_get_len(value)}), longest_text);
  return yyjson_is_str(value);
}
bool take(yyjson_val* value, bool& flag) {
  flag = yyjson_get_bool(value);
  return yyjson_is_bool(value);
}
template <std::integral Number>
bool take(yyjson_val* value, Number& number) {
  const bool fits = yyjson_is_uint(value) ? std::in_range<Number>(yyjson_get_uint(value))
                                          : std::in_range<Number>(yyjson_get_sint(value));
  if (fits) number = static_cast<Number>(yyjson_get_sint(value));
  return fits && yyjson_is_int(value);
}
template <class Number>
bool take(yyjson_val* value, std::optional<Number>& number) {
  return take(value, number.emplace());
}
template <class Struct>
bool take(yyjson_val* value, Struct& to);
template <class Element>
bool take(yyjson_val* value, std::vector<Element>& list) {
  bool good = yyjson_is_arr(value);
  for (std::size_t i = 0; good && i < std::min(yyjson_arr_size(value), most_elements); ++i)
    good = take(yyjson_arr_get(value, i), list.emplace_back());
  return good;
}
template <class Struct>
bool take(yyjson_val* value, Struct& to) {
  bool good = yyjson_is_obj(value);
  each_member<Struct>([&](auto member) {
    yyjson_val* inner = yyjson_obj_get(value, member.name);
    good = good && (inner == nullptr || take(inner, to.*member.pointer));
  });
  return good;
}

}  // namespace

std::string to_json(const Message& message) {
  std::string body;
  for (std::size_t longest = longest_text; body.empty() || body.size() > longest_body; longest /= 2)
    body = std::visit([&](const auto& inner) { return written(inner, longest); }, message);
  return body;
}

std::optional<Message> from_json(std::uint8_t type, std::string_view body) {
  if (type == 0 || type > std::variant_size_v<Message>) return std::nullopt;
  Message message = boost::mp11::mp_with_index<std::variant_size_v<Message>>(
      std::size_t{type} - 1, [](auto index) { return Message(std::in_place_index<index>); });
  const std::unique_ptr<yyjson_doc, decltype(&yyjson_doc_free)> document(
      yyjson_read(body.data(), body.size(), YYJSON_READ_NOFLAG), &yyjson_doc_free);
  yyjson_val* object = yyjson_doc_get_root(document.get());
  const bool good = std::visit([&](auto& inner) { return take(object, inner); }, message);
  return good ? std::optional(std::move(message)) : std::nullopt;
}

std::string node_name(unsigned rank, std::string_view host, std::string_view address) {
  std::vector<std::string> more;
  if (!host.empty()) more.push_back("host " + in_quotes(host));
  if (!address.empty()) more.emplace_back(address);
  return more.empty() ? fmt::format("node {}", rank) : fmt::format("node {} ({})", rank, joined(more));
}

std::string missing_ranks(const Waiting& waiting) {
  std::string text =
      fmt::format("{} {}", waiting.count == 1 ? "rank" : "ranks", fmt::join(waiting.missing, ", "));
  if (waiting.count > waiting.missing.size())
    text += fmt::format(" and {} more", waiting.count - waiting.missing.size());
  return text;
}

std::string waiting_line(const Waiting& waiting) {
  std::string line =
      fmt::format("waiting for {} of {} nodes: {}", waiting.count, waiting.nnodes, missing_ranks(waiting));
  if (!waiting.note.empty()) line += "; " + waiting.note;
  return line;
}

std::string Stop::sentence() const {
  const std::string name = node_name(culprit.node, culprit.host);
  if (drained())
    return name + " was asked to stop" + (culprit.text.empty() ? "" : " (" + culprit.text + ")");
  if (lost()) return name + " is lost: " + culprit.text;
  const std::string worker = culprit.rank ? fmt::format("rank {} ", *culprit.rank) : std::string();
  return name + " failed: " + worker +
         (culprit.text.empty() ? fmt::format("ended with code {}", culprit.code) : culprit.text);
}

}  // namespace rankshim::link
