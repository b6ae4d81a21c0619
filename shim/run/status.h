#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <string>
#include <vector>

#include "run/ask_status.h"

/// `rankshim status`: a Unix socket that shows what this container's instance is doing.
namespace rankshim::status {

/// What provides the answer.
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// One JSON object; docs/report.md describes it.
  [[nodiscard]] virtual std::string status() const = 0;
};

/// The instance's side: a client that is root or of the same user gets the text when it connects, and is
/// disconnected.
class Socket {
 public:
  Socket(boost::asio::io_context& io, const Source& source) : source_(source), listener_(io) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Listens at `rankshim.sock` (on a machine without a PID namespace of its own `rankshim-process-PID.sock`,
  /// because several jobs may run there) in the first of these folders where that is possible, or if there is
  /// no room in any, at `rankshim-N.sock`, where N is the PID namespace's number. Logs a warning about
  /// obstacles, and if it listens nowhere. Does nothing if it listens already. If another instance of this
  /// container listens, it keeps its socket and this one has none; if one of another container does (in a
  /// shared /dev/shm), it keeps its socket and the next folder is tried. Only a socket that an instance of
  /// this user left when it ended is replaced.
  void open(const std::vector<std::string>& folders);

  /// Stops answering. The file is removed if it is still this instance's.
  void close();

 private:
  /// 0, or an errno: EADDRINUSE if another instance of this container answers; its process is then `keeper_`.
  int open_at(const std::string& path);
  void warn_of_keeper(const std::string& path) const;
  void listen();
  void answer();

  const Source& source_;
  boost::asio::posix::stream_descriptor listener_;
  std::string path_;
  dev_t device_ = 0;  // of the file at path_
  ino_t inode_ = 0;
  pid_t keeper_ = 0;
};

}  // namespace rankshim::status
