#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <spdlog/formatter.h>
#include <spdlog/sinks/sink.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace rankshim::log {
namespace {

// A pipe takes up to PIPE_BUF bytes at once or none of them (pipe(7)).
constexpr std::size_t longest_line = 4096;

std::uint64_t dropped_lines = 0;

#ifndef RWF_NOWAIT
constexpr int RWF_NOWAIT = 8;
#endif

/// Calls pwritev2(2) at the descriptor's current offset, by its number, because musl has it only since 1.2.5.
/// Pipes and devices accept RWF_NOWAIT since Linux 6.x; terminals and most file systems do not.
ssize_t write_now(int descriptor, std::string_view line) {
  const iovec part{const_cast<char*>(line.data()), line.size()};
  return syscall(SYS_pwritev2, descriptor, &part, 1, -1L, -1L, RWF_NOWAIT);
}

/// Writes through a newly opened file description, which has its own flags.
ssize_t write_by_own_description(int descriptor, std::string_view line) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const UniqueFd own(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own.number() >= 0) return ::write(own.number(), line.data(), line.size());
  // Without /proc, or if the file belongs to another user, poll and hope that no other process fills the pipe
  // in between. A writable pipe takes PIPE_BUF bytes, and one without a reader fails at once.
  pollfd ready{descriptor, POLLOUT, 0};
  errno = EAGAIN;
  if (poll(&ready, 1, 0) != 1) return -1;
  return ::write(descriptor, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
}

/// Whether stderr can show colours and the user wants them (no-color.org).
bool has_colours() {
  const char *const no_colour = std::getenv("NO_COLOR"), *const term = std::getenv("TERM");
  const bool refused =
      (no_colour != nullptr && *no_colour != '\0') || (term != nullptr && term == std::string_view("dumb"));
  return !refused && isatty(STDERR_FILENO) == 1;
}

std::string plain_line(Level level, std::string_view text, bool with_time) {
  std::string line;
  if (with_time) line = json::moment(std::chrono::system_clock::now()).append(" ");
  line += "rankshim: ";
  if (level >= Level::warn) {
    static const bool coloured = has_colours();  // no system call before the first such line
    const bool warns = level == Level::warn;
    if (coloured) line += warns ? "\x1b[33m" : "\x1b[31m";
    line += warns ? "warning:" : "error:";
    line += coloured ? "\x1b[m " : " ";
  }
  return line.append(text);
}

std::string json_line(Level level, std::string_view text) {
  constexpr std::size_t longest_name = 200;  // leaves room for the message, however much of it is escaped
  const auto name = spdlog::level::to_string_view(level);
  while (true) {
    json::Object object;
    object.text("time", json::moment(std::chrono::system_clock::now()));
    object.text("level", {name.data(), name.size()}).text("message", text);
    const Context& known = context();
    if (!known.phase.empty()) object.text("phase", known.phase);
    if (known.node_rank) object.number("node_rank", *known.node_rank);
    if (known.nnodes) object.number("nnodes", *known.nnodes);
    if (!known.platform.empty()) object.text("platform", cut(known.platform, longest_name));
    if (!known.run_id.empty()) object.text("run_id", cut(known.run_id, longest_name));
    if (known.attempt != 0) object.number("attempt", known.attempt);
    if (known.exit_code) object.number("exit_code", *known.exit_code);
    if (!known.cause.empty()) object.text("cause", known.cause);
    std::string line = object.str();
    if (line.size() < longest_line || text.empty()) return line;
    text = cut(text, text.size() / 2);  // cut the message, so that the line is still an object
  }
}

/// Formats a line as text. spdlog's pattern_formatter will not do: only warnings and errors start with their
/// level, and control characters must be escaped.
class TextFormatter final : public spdlog::formatter {
 public:
  explicit TextFormatter(bool with_time) : with_time_(with_time) {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    fmt::format_to(std::back_inserter(line), "{}", plain_line(message.level, text, with_time_));
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextFormatter>(with_time_);
  }

 private:
  bool with_time_;
};

/// Formats a line as a JSON object; pattern_formatter does not escape text for JSON.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    fmt::format_to(std::back_inserter(line), "{}", json_line(message.level, text));
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

/// Writes lines to stderr. spdlog's own sinks will not do: they use stdio, which waits for a reader and
/// changes errno.
class StderrSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const int saved = errno;  // a line logged between a failed call and the check of errno must not change it
    spdlog::memory_buf_t made;
    formatter_->format(message, made);
    std::string line(cut({made.data(), made.size()}, longest_line - 1));
    line += '\n';
    if (write_what_fits(STDERR_FILENO, line) < 0) ++dropped_lines;
    errno = saved;
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}  // see TextFormatter
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    formatter_ = std::move(formatter);
  }

 private:
  std::unique_ptr<spdlog::formatter> formatter_ = std::make_unique<TextFormatter>(false);
};

/// Counts a line that could not be formatted for lack of memory.
void on_error(const std::string& /*what*/) {
  if (dropped_lines++ == 0)
    write_what_fits(STDERR_FILENO, "rankshim: error: the system refused memory for a log line\n");
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

void configure(std::string_view level, bool as_json, bool with_time) {
  logger().set_level(spdlog::level::from_str(std::string(level)));
  if (as_json)
    logger().set_formatter(std::make_unique<JsonFormatter>());
  else
    logger().set_formatter(std::make_unique<TextFormatter>(with_time));
}

Context& context() {
  static Context known;
  return known;
}
std::uint64_t dropped() { return dropped_lines; }

ssize_t write_what_fits(int descriptor, std::string_view text) {
  const ssize_t written = write_now(descriptor, text);
  if (written >= 0) return written;
  struct stat status{};
  if (fstat(descriptor, &status) != 0) return -1;
  if (S_ISREG(status.st_mode)) return ::write(descriptor, text.data(), text.size());
  if (S_ISSOCK(status.st_mode))
    return send(descriptor, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return write_by_own_description(descriptor, text);
}

}  // namespace rankshim::log
