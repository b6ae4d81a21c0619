#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "node/environment.h"

namespace rankshim {

/// What a file says of a pod.
struct Recorded {
  Environment environment;
  std::string host_name;           ///< empty where the file does not say it
  std::string address;             ///< the pod's, empty likewise
  std::string hosts;               ///< what its /etc/hosts must hold
  std::vector<std::string> notes;  ///< what the file leaves open
};

/// Reads what `env -0` or `env` printed in a pod, or a Pod as `kubectl get pod NAME -o yaml` or `-o json`
/// prints it, also in a List of one (values by fieldRef and resourceFieldRef are looked up in the Pod).
/// `container` names the Pod's container; where it is empty: the one that runs rankshim, else kubectl's
/// choice. `path` is for faults. In the output of a plain `env` a line without NAME= goes on the value before
/// it.
Outcome<Recorded> read_env_file(const std::string& path, std::string_view text,
                                std::string_view container = {});

}  // namespace rankshim
