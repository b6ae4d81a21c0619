#include "launchers/native/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "launchers/native/worker.h"

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

Output::Output(const OutputPlan& plan) : plan_(plan) {
  if (plan.tee || plan.prefix) relay_ = std::make_unique<Relay>(STDOUT_FILENO, STDERR_FILENO);
}

std::array<int, 2> Output::open(const std::string& worker_folder, unsigned rank) {
  const std::string prefix = plan_.prefix ? "[" + std::to_string(rank) + "] " : std::string();
  if (!worker_folder.empty() && plan_.to_files)
    return {open_file(worker_folder + "/stdout.log", STDOUT_FILENO, prefix),
            open_file(worker_folder + "/stderr.log", STDERR_FILENO, prefix)};
  if (!plan_.prefix) return {-1, -1};
  return {open_pipe(STDOUT_FILENO, prefix), open_pipe(STDERR_FILENO, prefix)};
}

int Output::open_file(const std::string& path, int target, const std::string& prefix) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
  if (file < 0) {
    log::warn("cannot write {} ({}): the worker's output comes here", path, std::strerror(errno));
    return -1;
  }
  descriptors_.push_back(file);
  if (plan_.tee && !relay_->add_file(path, target, prefix))
    log::warn("cannot follow {} ({}): what is written there does not come here", path, std::strerror(errno));
  return file;
}

int Output::open_pipe(int target, const std::string& prefix) {
  const int pipe = relay_->add_pipe(target, prefix);
  if (pipe >= 0)
    descriptors_.push_back(pipe);
  else
    log::warn("cannot put {}before a worker's lines: {}", prefix, std::strerror(errno));
  return pipe;
}

void Output::close_descriptors() {
  for (const int descriptor : descriptors_) close(descriptor);
  descriptors_.clear();
}

void Output::started(boost::asio::io_context& io) {
  close_descriptors();
  if (relay_)
    watch_ = std::make_unique<supervise::Watch>(io, relay_->descriptor(), [this] { relay_->serve(); });
}

void Output::finish() {
  if (relay_) relay_->finish();
}

}  // namespace rankshim::native
