#include "link/message.h"

#include <fmt/format.h>
#include <yyjson.h>

#include <algorithm>
#include <array>
#include <boost/describe.hpp>
#include <boost/mp11/algorithm.hpp>
#include <chrono>
#include <concepts>
#include <csignal>
#include <limits>
#include <memory>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace rankshim::outcome {

// These are on the wire, too.
BOOST_DESCRIBE_STRUCT(RankRange, (), (first, last, step))
BOOST_DESCRIBE_STRUCT(Frame, (), (file, line, function))
BOOST_DESCRIBE_STRUCT(Place, (), (line, call, state, kernel, holds_gil, works, polls, below))
BOOST_DESCRIBE_STRUCT(Hang, (),
                      (kind, place, waits_at, group, number, operation, other_operation, further, stalled,
                       timeout))
BOOST_DESCRIBE_ENUM(Loss::Sign, ended, silent, unanswered, suspended, cut_off, outvoted)
BOOST_DESCRIBE_ENUM(Loss::Then, unknown, restarted, not_listening, not_back, not_reached)
BOOST_DESCRIBE_STRUCT(Loss, (), (sign, then, time, within, others))
BOOST_DESCRIBE_STRUCT(Culprit, (),
                      (rank, program, cause, code, signal, text, node, host, frame, peer, ranks, victims,
                       after, hang, loss))
BOOST_DESCRIBE_ENUM(NotRestarted::Why, all_used, permanent, hung_again, raised_again, stopped, left_processes,
                    no_spare, node_gone)
BOOST_DESCRIBE_STRUCT(NotRestarted, (), (why, used, most, within, of_the_job, code, cause, gone, was_spare))

BOOST_DESCRIBE_STRUCT(GroupProgress, (), (name, description, members, entered, ended, operation))
BOOST_DESCRIBE_STRUCT(WorkerLook, (),
                      (rank, pid, state, kernel, works, polls, holds_gil, stack, below, groups))

}  // namespace rankshim::outcome

namespace rankshim::link {

// The structures on the wire.
BOOST_DESCRIBE_STRUCT(Term, (), (number, hub, voters))
BOOST_DESCRIBE_STRUCT(Ballot, (), (term, before, kept, votes))
BOOST_DESCRIBE_STRUCT(KnownTerm, (), (last, votes, led, before, voted, led_before))
BOOST_DESCRIBE_STRUCT(ListenAddress, (), (index, address, port))
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (run, attempt, restarts, uncounted, job_restarts, spares, instance, rank, nnodes,
                       workers, launcher, master, port, address, host, pod, platform_node, version, running,
                       failure, listen_port, holds, term, leads, nonce))
BOOST_DESCRIBE_STRUCT(Welcome, (), (instance, rank, host, port, pings, seen, term, running, nonce))
BOOST_DESCRIBE_STRUCT(Proof, (), ())
BOOST_DESCRIBE_ENUM(Agreed, run_id, attempt, nnodes, master_port, launcher, job_restarts, spares,
                    nproc_per_node)
BOOST_DESCRIBE_ENUM(ProblemKind, differs, too_many_workers, too_many_restarts, rank_out_of_range, rank_twice,
                    token_missing, token_unexpected, token_unproven, hub_without_token, other_token, version,
                    attempt_unknown, too_late, failed, itself, impossible_hub, hub_restarted, not_the_hub,
                    another_hub, port_in_use, port_not_free, store_clients, store_answers, nodes_missing,
                    refused, no_connection, no_answer, hangs_up, store_there, other_there, unproven_hub,
                    connection_ended)
BOOST_DESCRIBE_STRUCT(NodeName, (), (rank, host, address))
BOOST_DESCRIBE_STRUCT(Problem, (),
                      (kind, agreed, node, other, culprit, theirs, ours, master, addresses, detail, number,
                       most))
BOOST_DESCRIBE_STRUCT(LackingVotes, (), (here, all, counted))
BOOST_DESCRIBE_STRUCT(RollCall, (), (nodes, missing, is_enough, silent, votes, gone, problems))
BOOST_DESCRIBE_ENUM(WaitingFor, nodes, pause, silent_end, port, ends)
BOOST_DESCRIBE_STRUCT(Waiting, (), (what, roll_call, port, running))
BOOST_DESCRIBE_STRUCT(Lead, (), (master, hub_rank, ballot, candidates))
BOOST_DESCRIBE_STRUCT(Go, (), (attempt, uncounted, rank, nodes, offset, world, lead))
BOOST_DESCRIBE_STRUCT(Refuse, (), (cause, roll_call, culprit))
BOOST_DESCRIBE_STRUCT(Unlinked, (), (why))
BOOST_DESCRIBE_STRUCT(Moved, (), (hub))
BOOST_DESCRIBE_STRUCT(Stranger, (), (why))
BOOST_DESCRIBE_STRUCT(Stop, (), (culprit, others, again, not_restarted))
BOOST_DESCRIBE_STRUCT(WorkerReport, (), (local_rank, code, age, entered, ended))
BOOST_DESCRIBE_STRUCT(Done, (), (code, workers))
BOOST_DESCRIBE_STRUCT(End, (), ())
BOOST_DESCRIBE_STRUCT(Ping, (), ())
BOOST_DESCRIBE_STRUCT(Look, (), (number, full))
BOOST_DESCRIBE_STRUCT(Seen, (), (workers, number, more))
BOOST_DESCRIBE_STRUCT(Looked, (), (number, local_rank, worker))
BOOST_DESCRIBE_STRUCT(Voters, (), (ballot, candidates))
BOOST_DESCRIBE_STRUCT(Heard, (), (number))

namespace {

/// The messages' type names, in the order of `Message`.
constexpr std::array<std::string_view, std::variant_size_v<Message>> types = {
    "hello", "welcome", "proof", "waiting", "refuse", "go",    "fail",     "stop",  "done",    "end",
    "ping",  "look",    "seen",  "looked",  "voters", "heard", "unlinked", "moved", "stranger"};

constexpr std::size_t longest_string = 1024;
constexpr std::string_view store_client_word = greeting.substr(0, 5);
constexpr std::size_t most_elements = 60;  // of a list, so that the longest one fits into a message

/// Calls `with` for each member that a struct has on the wire.
template <class Struct>
void each_member(auto with) {
  boost::mp11::mp_for_each<boost::describe::describe_members<Struct, boost::describe::mod_public>>(with);
}

/// How much of a value a message includes.
struct Bounds {
  std::size_t text = longest_string;
  std::size_t elements = most_elements;
};

// A value as JSON, within its bounds.

std::string written(const std::string& text, const Bounds& bounds) {
  return json::quote(cut(printable(text), bounds.text));
}
std::string written(Cause cause, const Bounds& /*bounds*/) { return json::quote(outcome::name(cause)); }
std::string written(outcome::HangKind kind, const Bounds& /*bounds*/) {
  return json::quote(outcome::name(kind));
}
template <class Enum>
  requires boost::describe::has_describe_enumerators<Enum>::value
std::string written(const Enum& value, const Bounds& /*bounds*/) {
  return json::quote(boost::describe::enum_to_string(value, ""));
}
std::string written(char letter, const Bounds& /*bounds*/) { return json::quote(printable({&letter, 1})); }
template <std::integral Number>
std::string written(const Number& number, const Bounds& /*bounds*/) {
  return fmt::format("{}", number);
}
/// A time in milliseconds, of at most 49 days.
std::string written(std::chrono::milliseconds time, const Bounds& /*bounds*/) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  return fmt::format("{}", std::clamp<std::int64_t>(time.count(), 0, most));
}
template <class Struct>
std::string written(const Struct& from, const Bounds& bounds);
template <class Element>
std::string written(const std::vector<Element>& list, const Bounds& bounds) {
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < std::min(list.size(), bounds.elements); ++i)
    elements.push_back(written(list[i], bounds));
  return '[' + joined(elements, ",") + ']';
}
template <class Struct>
std::string written(const Struct& from, const Bounds& bounds) {
  json::Object object;
  each_member<Struct>([&](auto member) {
    const auto& value = from.*member.pointer;
    constexpr bool is_count = std::is_same_v<std::decay_t<decltype(value)>, std::uint64_t>;
    if constexpr (is_count) {
      if (value != 0) object.raw(member.name, written(value, bounds));  // most workers report none
    } else if constexpr (requires { value.value(); }) {
      if (value) object.raw(member.name, written(*value, bounds));
    } else {
      object.raw(member.name, written(value, bounds));
    }
  });
  return object.str();
}

// Corrects impossible numbers in a message, if nothing depends on them; false if that cannot be done. A
// worker's own variables may contain any rank, and the node that passes it on must not lose its link because
// of that.

constexpr bool settle(auto& /*has no such numbers*/) { return true; }
void settle_code(int& code) { code = std::clamp(code, 0, 255); }
bool is_port(unsigned port) { return port <= std::numeric_limits<std::uint16_t>::max(); }
bool settle(Welcome& welcome) { return is_port(welcome.port) && welcome.rank < most_nodes; }
bool settle(ListenAddress& listener) { return is_port(listener.port) && listener.index < most_nodes; }
/// The port is passed on to all nodes. The roster checks the other numbers.
bool settle(Hello& hello) {
  if (!is_port(hello.listen_port)) hello.listen_port = 0;
  return true;
}
bool settle(Term& term) { return term.voters <= most_nodes && term.number <= most_terms; }
bool settle(Go& go) {
  return go.attempt <= most_restarts && go.uncounted <= go.attempt && go.world <= most_ranks &&
         go.offset <= go.world && go.nodes <= most_nodes && (!go.rank || *go.rank < go.nodes);
}
bool settle(outcome::RankRange& range) {
  return range.first <= range.last && range.last < most_ranks && range.step > 0 && range.step < most_ranks;
}
bool settle(Culprit& culprit) {
  settle_code(culprit.code);
  if (culprit.rank.value_or(0) >= most_ranks) culprit.rank.reset();
  if (culprit.signal && (*culprit.signal < 1 || *culprit.signal >= NSIG)) culprit.signal.reset();
  return culprit.node < most_nodes;
}
bool settle(outcome::NotRestarted& refusal) {
  if (refusal.code) settle_code(*refusal.code);
  return true;
}
bool settle(WorkerReport& worker) {
  if (worker.code) settle_code(*worker.code);
  return true;
}
bool settle(outcome::GroupProgress& group) { return group.ended <= group.entered; }
bool settle(Looked& looked) {
  const auto cut_to = [](auto& list, std::size_t most) { list.resize(std::min(list.size(), most)); };
  cut_to(looked.worker.stack, most_frames);
  cut_to(looked.worker.groups, most_groups);
  return looked.local_rank < most_workers;
}
/// Only these causes end a meeting, and only a node that cannot join is to blame for it.
bool settle(Refuse& refuse) {
  const bool is_known = refuse.cause == Cause::configuration || refuse.cause == Cause::unreachable;
  return refuse.culprit ? refuse.cause == Cause::peer_lost : is_known;
}
bool settle(Done& done) {
  settle_code(done.code);
  return true;
}

// Take a value from JSON; false if it has another type.

bool take(yyjson_val* value, std::string& text) {
  if (yyjson_is_str(value))
    text = cut(printable({yyjson_get_str(value), yyjson_get_len(value)}), longest_string);
  return yyjson_is_str(value);
}
bool take(yyjson_val* value, char& letter) {
  const bool good = yyjson_is_str(value) && yyjson_get_len(value) == 1;
  if (good) letter = *yyjson_get_str(value);
  return good;
}
/// Of a newer rankshim's cause, only that there is one is known.
bool take(yyjson_val* value, Cause& cause) {
  if (yyjson_is_str(value))
    cause = outcome::cause_named({yyjson_get_str(value), yyjson_get_len(value)}).value_or(Cause::exited);
  return yyjson_is_str(value);
}
bool take(yyjson_val* value, outcome::HangKind& kind) {
  if (yyjson_is_str(value))
    kind = outcome::hang_kind_named({yyjson_get_str(value), yyjson_get_len(value)})
               .value_or(outcome::HangKind::undecided);
  return yyjson_is_str(value);
}
/// A value that this rankshim does not know makes the message invalid.
template <class Enum>
  requires boost::describe::has_describe_enumerators<Enum>::value
bool take(yyjson_val* value, Enum& known) {
  return yyjson_is_str(value) && boost::describe::enum_from_string(yyjson_get_str(value), known);
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
bool take(yyjson_val* value, std::chrono::milliseconds& time) {
  std::uint32_t count = 0;
  const bool good = take(value, count);
  time = std::chrono::milliseconds(count);
  return good;
}
template <class Struct>
bool take(yyjson_val* value, Struct& to);
template <class Inner>
bool take(yyjson_val* value, std::optional<Inner>& inner) {
  return take(value, inner.emplace());
}
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
  return good && settle(to);
}

}  // namespace

std::string to_text(const Message& message) {
  const auto text_within = [&](const Bounds& bounds) {
    return fmt::format("{} {}", types[message.index()],
                       std::visit([&](const auto& inner) { return written(inner, bounds); }, message));
  };
  Bounds bounds;
  std::string text = text_within(bounds);
  while (text.size() > longest_text) {  // shorten texts first, then lists
    bounds = bounds.text > longest_string / 16 ? Bounds{bounds.text / 2, bounds.elements}
                                               : Bounds{bounds.text / 2, bounds.elements / 2};
    text = text_within(bounds);
  }
  return text;
}

std::optional<Message> from_text(std::string_view text) {
  const auto type = std::ranges::find(types, split_next(text, " "));
  if (type == types.end()) return std::nullopt;
  Message message = boost::mp11::mp_with_index<types.size()>(
      static_cast<std::size_t>(type - types.begin()),
      [](auto index) { return Message(std::in_place_index<index>); });
  const std::unique_ptr<yyjson_doc, decltype(&yyjson_doc_free)> document(
      yyjson_read(text.data(), text.size(), YYJSON_READ_NOFLAG), &yyjson_doc_free);
  yyjson_val* object = yyjson_doc_get_root(document.get());
  const bool good = std::visit([&](auto& inner) { return take(object, inner); }, message);
  return good ? std::optional(std::move(message)) : std::nullopt;
}

void Decoder::read_greeting() {
  constexpr std::string_view end_of_number("\0\0\0\0", 4);  // the store answers with 8 bytes
  const auto right = static_cast<std::size_t>(std::ranges::mismatch(bytes_, greeting).in1 - bytes_.begin());
  if (right == greeting.size()) {
    greeted_ = true;
    bytes_.erase(0, right);
  } else if (right == bytes_.size()) {
    return;  // the rest is still to come
  } else if (right + 1 == greeting.size()) {
    broken_ = StreamError::version;
  } else if (right == store_client_word.size()) {
    broken_ = StreamError::store_client;
  } else {
    broken_ = bytes_.size() == 8 && bytes_.ends_with(end_of_number) ? StreamError::store : StreamError::other;
  }
}

std::optional<Line> Decoder::next() {
  if (!greeted_) read_greeting();
  const std::size_t end = bytes_.find('\n');
  const std::size_t tag = bytes_.rfind('}', end) + 1;
  if (greeted_ && (tag > longest_text || std::min(end, bytes_.size()) > longest_line))
    broken_ = StreamError::other;
  if (!greeted_ || end == std::string::npos || broken_ != StreamError::no) return std::nullopt;
  Line line{bytes_.substr(0, tag), bytes_.substr(tag, end - tag)};
  bytes_.erase(0, end + 1);
  if (bytes_.empty()) std::string().swap(bytes_);  // most connections say one thing and are then silent
  return line;
}

StreamError Decoder::at_end() const {
  return !greeted_ && bytes_ == store_client_word ? StreamError::store_client : broken_;
}

}  // namespace rankshim::link
