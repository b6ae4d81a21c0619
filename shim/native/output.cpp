#include "native/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "native/worker.h"

namespace rankshim::native {

std::string make_log_folder(const std::string& log_dir, std::string_view run_id) {
  std::string path = log_folder_template(log_dir, run_id);
  if (mkdtemp(path.data()) != nullptr) return path;
  log::warn(
      "cannot make a folder in {} ({}): the workers' output comes here, and their exceptions will not be "
      "known",
      log_dir, std::strerror(errno));
  return {};
}

std::array<int, 2> Output::open(const std::string& worker_folder) {
  std::array<int, 2> streams{-1, -1};
  for (const std::size_t stream : {0U, 1U}) {
    const std::string path = worker_folder + (stream == 0 ? "/stdout.log" : "/stderr.log");
    streams[stream] = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
    if (streams[stream] < 0)
      log::warn("cannot write {} ({}): the worker's output comes here", path, std::strerror(errno));
    else
      descriptors_.push_back(streams[stream]);
  }
  return streams;
}

void Output::workers_have_them() {
  for (const int descriptor : descriptors_) close(descriptor);
  descriptors_.clear();
}

}  // namespace rankshim::native
