#include "base/log.h"

#include <spdlog/logger.h>
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

std::string plain_line(spdlog::level::level_enum level, std::string_view text) {
  std::string line = "rankshim: ";
  if (level == spdlog::level::warn) line += "warning: ";
  if (level >= spdlog::level::err) line += "error: ";
  return line.append(text);
}

std::string json_line(spdlog::level::level_enum level, std::string_view text) {
  const std::string_view name = level >= spdlog::level::err    ? "error"
                                : level == spdlog::level::warn ? "warn"
                                : level == spdlog::level::info ? "info"
                                                               : "debug";
  while (true) {
    json::Object object;
    object.raw("time", json::moment(std::chrono::system_clock::now()));
    object.text("level", name).text("message", text);
    if (!context.phase.empty()) object.text("phase", context.phase);
    if (context.node_rank) object.number("node_rank", *context.node_rank);
    if (!context.run_id.empty()) object.text("run_id", context.run_id);
    std::string line = object.str();
    if (line.size() < longest_line) return line;
    text = cut(text, text.size() / 2);  // cut inside, so that it is still an object
  }
}

/// Derived from sinks::sink, not base_sink: spdlog's pattern formatter would cost 61 kB for a prefix.
class StderrSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    std::string line = as_json ? json_line(message.level, text) : plain_line(message.level, text);
    if (line.size() >= longest_line) line.resize(cut(line, longest_line - 1).size());
    line += '\n';
    if (!write_without_waiting(STDERR_FILENO, line)) ++dropped_lines;
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}
};

spdlog::logger& logger() {
  static spdlog::logger instance("rankshim", std::make_shared<StderrSink>());
  return instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }
void set_json(bool json) { as_json = json; }
void set_phase(std::string_view phase) { context.phase = phase; }
void set_node(std::optional<unsigned> node_rank, std::string_view run_id) {
  context.node_rank = node_rank;
  context.run_id = run_id;
}
bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }
std::uint64_t dropped() { return dropped_lines; }

void write(Level level, std::string_view text) {
  const int saved = errno;  // a log line between a failed call and the check of errno must not change it
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
  errno = saved;
}

}  // namespace rankshim::log
