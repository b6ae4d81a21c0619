#include "link/message.h"

#include <fmt/format.h>
#include <yyjson.h>

#include <algorithm>
#include <boost/mp11/algorithm.hpp>
#include <memory>
#include <ranges>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace rankshim::link {
namespace {

constexpr std::size_t longest_name = 260;  // of a host, a pod, a service
constexpr std::size_t longest_text = 512;  // what a failure says
constexpr std::size_t longest_sentence = 1024;
constexpr std::size_t most_missing = 10;
constexpr std::size_t most_workers = 64;
constexpr std::int64_t longest_age = 366LL * 86'400'000;  // ms

/// The members of each message, for the writer and the reader alike.
void each_member(auto& to, Hello& hello) {
  to("run", hello.run);
  to("attempt", hello.attempt);
  to("restarts", hello.restarts);
  to("job_restarts", hello.job_restarts);
  to("instance", hello.instance);
  to("session", hello.session);
  to("rank", hello.rank);
  to("nnodes", hello.nnodes);
  to("workers", hello.workers);
  to("launcher", hello.launcher);
  to("master", hello.master);
  to("port", hello.port);
  to("address", hello.address);
  to("host", hello.host);
  to("pod", hello.pod);
  to("node", hello.platform_node);
  to("version", hello.version);
  to("nonce", hello.nonce);
}
void each_member(auto& to, Welcome& welcome) {
  to("session", welcome.session);
  to("host", welcome.host);
  to("address", welcome.address);
  to("seen", welcome.seen);
  to("port", welcome.port);
  to("nonce", welcome.nonce);
}
void each_member(auto& to, Waiting& waiting) {
  to("nnodes", waiting.nnodes);
  to("count", waiting.count);
  to("missing", waiting.missing);
  to("note", waiting.note, longest_sentence);
}
void each_member(auto& to, Refuse& refuse) {
  to("code", refuse.code);
  to("sentence", refuse.sentence, longest_sentence);
}
void each_member(auto& to, Unlink& unlink) { to("why", unlink.why, longest_sentence); }
void each_member(auto& to, Go& go) {
  to("attempt", go.attempt);
  to("offset", go.offset);
  to("world", go.world);
}
void each_member(auto& to, Failure& failure) {
  to("rank", failure.rank);
  to("cause", failure.cause);
  to("code", failure.code);
  to("text", failure.text, longest_text);
  to("age", failure.age);
  to("node", failure.node);
  to("host", failure.host);
}
void each_member(auto& to, Stop& stop) {
  each_member(to, stop.culprit);
  auto why = static_cast<unsigned>(stop.why);
  to("why", why);
  stop.why = static_cast<Stop::Why>(std::min(why, static_cast<unsigned>(Stop::Why::lost)));
  to("again", stop.again);
  to("note", stop.note, longest_text);
}
void each_member(auto& to, Stopping& stopping) { to("signal", stopping.signal); }
void each_member(auto& to, Done& done) {
  to("code", done.code);
  to("workers", done.workers);
}
template <class Nothing>
  requires std::is_empty_v<Nothing>
void each_member(auto& /*to*/, Nothing& /*none*/) {}

/// Adds members to an object. A text has at most `longest`/`divisor` bytes.
class Writer {
 public:
  explicit Writer(std::size_t divisor) : divisor_(divisor) {}
  void operator()(std::string_view name, const std::string& text, std::size_t longest = longest_name) {
    if (!text.empty()) object_.text(name, cut(printable(text), longest / divisor_));
  }
  void operator()(std::string_view name, bool flag) {
    if (flag) object_.flag(name, flag);
  }
  template <class Number>
    requires std::is_integral_v<Number>
  void operator()(std::string_view name, Number number) {
    object_.number(name, number);
  }
  void operator()(std::string_view name, const std::optional<unsigned>& number) {
    if (number) object_.number(name, *number);
  }
  void operator()(std::string_view name, const std::vector<unsigned>& numbers) {
    object_.raw(name, fmt::format("[{}]", fmt::join(numbers, ",")));
  }
  void operator()(std::string_view name, const std::vector<WorkerDone>& workers) {
    std::vector<std::string> rows;
    for (const auto& [local_rank, code, age] : workers | std::views::take(most_workers))
      rows.push_back(fmt::format("[{},{},{}]", local_rank, code, age));
    if (!rows.empty()) object_.raw(name, '[' + joined(rows, ",") + ']');
  }
  [[nodiscard]] std::string str() const { return object_.str(); }

 private:
  std::size_t divisor_;
  json::Object object_;
};

/// Takes members from an object.
class Reader {
 public:
  explicit Reader(yyjson_val* object) : object_(object) {}
  [[nodiscard]] bool good() const { return good_; }

  void operator()(const char* name, std::string& text, std::size_t longest = longest_name) {
    yyjson_val* value = member(name, yyjson_is_str);
    if (value != nullptr) text = cut(printable({yyjson_get_str(value), yyjson_get_len(value)}), longest);
  }
  void operator()(const char* name, bool& flag) {
    if (yyjson_val* value = member(name, yyjson_is_bool)) flag = yyjson_get_bool(value);
  }
  template <class Number>
    requires std::is_integral_v<Number>
  void operator()(const char* name, Number& number) {
    if (yyjson_val* value = member(name, yyjson_is_int)) take(value, number);
  }
  void operator()(const char* name, std::optional<unsigned>& number) {
    if (yyjson_val* value = member(name, yyjson_is_int)) take(value, number.emplace());
  }
  void operator()(const char* name, std::vector<unsigned>& numbers) { take(name, numbers, most_missing); }
  void operator()(const char* name, std::vector<WorkerDone>& workers) { take(name, workers, most_workers); }

 private:
  /// Null if there is none, or it is of another kind.
  yyjson_val* member(const char* name, bool (*is_kind)(yyjson_val*)) {
    yyjson_val* value = yyjson_obj_get(object_, name);
    good_ = good_ && (value == nullptr || is_kind(value));
    return good_ ? value : nullptr;
  }

  template <class Element>
  void take(const char* name, std::vector<Element>& list, std::size_t most) {
    yyjson_val* value = member(name, yyjson_is_arr);
    for (std::size_t i = 0; i < std::min(yyjson_arr_size(value), most); ++i)
      take(yyjson_arr_get(value, i), list.emplace_back());
  }
  void take(yyjson_val* row, WorkerDone& worker) {
    take(yyjson_arr_get(row, 0), worker.local_rank);
    take(yyjson_arr_get(row, 1), worker.code);
    take(yyjson_arr_get(row, 2), worker.age);
    worker.age = std::clamp<std::int64_t>(worker.age, 0, longest_age);
  }
  template <class Number>
    requires std::is_integral_v<Number>
  void take(yyjson_val* value, Number& number) {
    good_ = good_ && yyjson_is_int(value) && (yyjson_is_sint(value) || yyjson_get_uint(value) <= INT64_MAX) &&
            std::in_range<Number>(yyjson_get_sint(value));
    if (good_) number = static_cast<Number>(yyjson_get_sint(value));
  }

  yyjson_val* object_;
  bool good_ = true;
};

}  // namespace

std::string to_json(const Message& message) {
  std::string body;
  for (const std::size_t divisor : {1U, 3U, 20U}) {  // what is full of quotes doubles in JSON
    Writer writer(divisor);
    Message copy = message;
    std::visit([&](auto& inner) { each_member(writer, inner); }, copy);
    body = writer.str();
    if (body.size() <= longest_body) break;
  }
  return body;
}

std::optional<Message> from_json(std::uint8_t type, std::string_view body) {
  if (type == 0 || type > std::variant_size_v<Message>) return std::nullopt;
  Message message = boost::mp11::mp_with_index<std::variant_size_v<Message>>(
      std::size_t{type} - 1, [](auto index) { return Message(std::in_place_index<index>); });
  const std::unique_ptr<yyjson_doc, decltype(&yyjson_doc_free)> document(
      yyjson_read(body.data(), body.size(), YYJSON_READ_NOFLAG), &yyjson_doc_free);
  yyjson_val* object = yyjson_doc_get_root(document.get());
  if (!yyjson_is_obj(object)) return std::nullopt;
  Reader reader(object);
  std::visit([&](auto& inner) { each_member(reader, inner); }, message);
  return reader.good() ? std::optional(std::move(message)) : std::nullopt;
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
  switch (why) {
    case Why::drained:
      return name + " was asked to stop" + (culprit.text.empty() ? "" : " (" + culprit.text + ")");
    case Why::lost:
      return name + " is lost: " + culprit.text;
    case Why::failed:
      break;
  }
  const std::string worker = culprit.rank ? fmt::format("rank {} ", *culprit.rank) : std::string();
  return name + " failed: " + worker +
         (culprit.text.empty() ? fmt::format("ended with code {}", culprit.code) : culprit.text);
}

}  // namespace rankshim::link
