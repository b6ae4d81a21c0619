#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/environment.h"

namespace rankshim {

/// What a file contains about a pod.
struct Recorded {
  Environment environment;
  std::string host_name;           ///< empty if the file does not have it
  std::string address;             ///< the pod's; empty likewise
  std::string hosts;               ///< the necessary lines of its /etc/hosts
  std::vector<std::string> notes;  ///< what the file does not contain
};

/// Reads the output of `env -0` or `env` in a pod, or a Pod as `kubectl get pod NAME -o yaml` or `-o json`
/// prints it, also in a List of one. Values by fieldRef and resourceFieldRef are looked up in the Pod.
/// `container` is the name of the Pod's container; if it is empty, the container that runs rankshim is used,
/// else kubectl's choice. `path` is for faults. In the output of a plain `env`, a line without NAME=
/// continues the value before it.
Outcome<Recorded> read_env_file(const std::string& path, std::string_view text,
                                std::string_view container = {});

}  // namespace rankshim
