#include "base/log.h"

#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/text.h"
#include "base/without_waiting.h"

namespace rankshim::log {
namespace {

// A pipe takes up to PIPE_BUF bytes at once or none of them (pipe(7)).
constexpr std::size_t longest_line = 4096;

std::uint64_t dropped_lines = 0;

bool as_json = false;

/// What a JSON line holds beside the message.
struct Context {
  std::string phase;
  std::optional<unsigned> node_rank;
  std::string run_id;
};
Context context;  // NOLINT(cert-err58-cpp)

std::string plain_line(Level level, std::string_view text) {
  std::string line = "rankshim: ";
  if (level == Level::warn) line += "warning: ";
  if (level >= Level::err) line += "error: ";
  return line.append(text);
}

std::string json_line(Level level, std::string_view text) {
  const auto name = spdlog::level::to_string_view(level);
  while (true) {
    json::Object object;
    object.raw("time", json::moment(std::chrono::system_clock::now()));
    object.text("level", {name.data(), name.size()}).text("message", text);
    if (!context.phase.empty()) object.text("phase", context.phase);
    if (context.node_rank) object.number("node_rank", *context.node_rank);
    if (!context.run_id.empty()) object.text("run_id", context.run_id);
    std::string line = object.str();
    if (line.size() < longest_line) return line;
    text = cut(text, text.size() / 2);  // cut inside, so that it is still an object
  }
}

/// Has no pattern, as base_sink would: a line is text with a prefix, or JSON.
class StderrSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const int saved = errno;  // a line between a failed call and the check of errno must not change it
    const std::string text = printable({message.payload.data(), message.payload.size()});
    std::string line = as_json ? json_line(message.level, text) : plain_line(message.level, text);
    if (line.size() >= longest_line) line.resize(cut(line, longest_line - 1).size());
    line += '\n';
    if (!write_without_waiting(STDERR_FILENO, line)) ++dropped_lines;
    errno = saved;
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}
};

/// For a line that cannot be made: there is no memory for it.
void on_error(const std::string& /*what*/) {
  if (dropped_lines++ == 0)
    write_without_waiting(STDERR_FILENO, "rankshim: error: the system refused memory for a log line\n");
}

}  // namespace

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("rankshim", std::make_shared<StderrSink>());
    made.set_error_handler(on_error);
    return made;
  }();
  return instance;
}

void set_level(std::string_view name) { logger().set_level(spdlog::level::from_str(std::string(name))); }
void set_json(bool json) { as_json = json; }
void set_phase(std::string_view phase) { context.phase = phase; }
void set_node(std::optional<unsigned> node_rank, std::string_view run_id) {
  context.node_rank = node_rank;
  context.run_id = run_id;
}
std::uint64_t dropped() { return dropped_lines; }

}  // namespace rankshim::log
