#include "node/env_file.h"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <utility>

#include "node/yaml.h"

namespace rankshim {
namespace {

constexpr std::string_view name_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-%()";

/// Where the name ends in front of `mark`; npos where the line does not begin with a name and it.
std::size_t end_of_name(std::string_view line, char mark) {
  const auto end = line.find_first_not_of(name_letters);
  return end != 0 && end != std::string_view::npos && line[end] == mark ? end : std::string_view::npos;
}

std::string_view next_line(std::string_view& text, char end_mark) {
  const auto end = text.find(end_mark);
  std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  if (end_mark == '\n' && line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Recorded from_entries(std::vector<std::string> entries) {
  Recorded recorded;
  recorded.environment = Environment(std::move(entries));
  recorded.host_name = recorded.environment.get("HOSTNAME").value_or("");
  recorded.address = recorded.environment.get("POD_IP").value_or("");
  return recorded;
}

Recorded read_separated(std::string_view text) {
  std::vector<std::string> entries;
  while (!text.empty()) {
    const std::string_view entry = next_line(text, '\0');
    if (entry.find('=') != std::string_view::npos) entries.emplace_back(entry);
  }
  return from_entries(std::move(entries));
}

Recorded read_lines(std::string_view text) {
  std::vector<std::string> entries;
  while (!text.empty()) {
    const std::string_view line = next_line(text, '\n');
    if (end_of_name(line, '=') != std::string_view::npos) {
      entries.emplace_back(line);
    } else if (!entries.empty() && !line.starts_with('#')) {
      entries.back().append("\n").append(line);
    }
  }
  return from_entries(std::move(entries));
}

/// One Pod of the flat form that yaml::read gives.
class Pod {
 public:
  explicit Pod(std::vector<yaml::Entry> document) : document_(std::move(document)) {}

  [[nodiscard]] std::optional<std::string_view> at(std::string_view path) const {
    for (const yaml::Entry& entry : document_) {
      if (entry.path == path) return entry.text;
    }
    return std::nullopt;
  }

  Recorded read() {
    choose_container();
    Variable variable;
    std::string_view index;
    for (const yaml::Entry& entry : document_) {
      std::string_view rest = entry.path;
      if (!rest.starts_with(container_)) continue;
      rest.remove_prefix(container_.size());
      if (rest.starts_with("envFrom.0.")) note("what its envFrom brings is not in the file");
      if (!rest.starts_with("env.")) continue;
      rest.remove_prefix(4);
      const auto dot = rest.find('.');
      if (dot == std::string_view::npos) continue;
      if (rest.substr(0, dot) != index) {
        take(variable);
        variable = {};
        index = rest.substr(0, dot);
      }
      read_key(variable, rest.substr(dot + 1), entry.text);
    }
    take(variable);
    place();
    return std::move(recorded_);
  }

 private:
  struct Variable {
    std::string_view name;
    std::string value;
    std::string_view elsewhere;  ///< what the value comes from where the file has it not
  };

  void note(std::string text) {
    for (const std::string& said : recorded_.notes) {
      if (said == text) return;
    }
    recorded_.notes.push_back(std::move(text));
  }

  /// kubectl's choice: the annotation, else the first one.
  void choose_container() {
    container_ = "spec.containers.0.";
    const auto wanted = at("metadata.annotations.kubectl.kubernetes.io/default-container");
    if (!wanted) {
      const auto first = at("spec.containers.0.name");
      if (at("spec.containers.1.name"))
        note(
            fmt::format("of the Pod's containers the first{} is read; the annotation "
                        "kubectl.kubernetes.io/default-container names another",
                        first ? fmt::format(", {},", *first) : ""));
      return;
    }
    for (const yaml::Entry& entry : document_) {
      const std::string_view path = entry.path;
      constexpr std::string_view containers = "spec.containers.";
      constexpr std::string_view name = ".name";
      if (entry.text != *wanted || !path.starts_with(containers) || !path.ends_with(name)) continue;
      const std::string_view number =
          path.substr(containers.size(), path.size() - containers.size() - name.size());
      if (number.find('.') == std::string_view::npos)
        container_ = path.substr(0, path.size() - name.size() + 1);
    }
  }

  void read_key(Variable& variable, std::string_view key, std::string_view text) {
    if (key == "name") {
      variable.name = text;
    } else if (key == "value") {
      variable.value = text;
    } else if (key == "valueFrom.fieldRef.fieldPath") {
      look_up(variable, field(text));
    } else if (key == "valueFrom.resourceFieldRef.resource") {
      look_up(variable, container_ + "resources." + std::string(text));
    } else if (key.starts_with("valueFrom.") && key.find("Field") == std::string_view::npos &&
               key.find("field") == std::string_view::npos) {
      variable.elsewhere = key.substr(10, key.find('.', 10) - 10);
    }
  }

  /// metadata.labels['a/b'] as this flat form has it: metadata.labels.a/b
  static std::string field(std::string_view path) {
    std::string flat(path);
    const auto open = flat.find("['");
    if (open == std::string::npos || !flat.ends_with("']")) return flat;
    flat.resize(flat.size() - 2);
    return flat.replace(open, 2, ".");
  }

  void look_up(Variable& variable, const std::string& path) {
    if (const auto text = at(path)) {
      variable.value = *text;
    } else {
      variable.elsewhere = "a field of the Pod that the file has not";
    }
  }

  void take(const Variable& variable) {
    if (variable.name.empty()) return;
    if (!variable.elsewhere.empty()) {
      note(fmt::format("{} is left out, its value comes from {}", variable.name, variable.elsewhere));
      return;
    }
    recorded_.environment.set(variable.name, expanded(variable.value));
  }

  /// $(NAME) of variables before; $$ is a plain $ (Kubernetes documentation, "Define Dependent Environment
  /// Variables").
  [[nodiscard]] std::string expanded(std::string_view value) const {
    std::string out;
    while (!value.empty()) {
      const auto dollar = value.find('$');
      out += value.substr(0, dollar);
      if (dollar == std::string_view::npos) break;
      value.remove_prefix(dollar + 1);
      const auto close = value.starts_with('(') ? value.find(')') : std::string_view::npos;
      if (value.starts_with('$')) {
        value.remove_prefix(1);
      } else if (close != std::string_view::npos) {
        if (const auto known = recorded_.environment.get(value.substr(1, close - 1))) {
          constexpr std::size_t longest = 1U << 17U;  // the kernel's limit for one variable
          if (out.size() + known->size() < longest) out += *known;
          value.remove_prefix(close + 1);
          continue;
        }
      }
      out += '$';
    }
    return out;
  }

  /// The host name, and the line that the kubelet writes into /etc/hosts (kubernetes:pkg/kubelet/
  /// kubelet_pods.go, ensureHostsFile).
  void place() {
    const std::string_view host = at("spec.hostname").value_or(at("metadata.name").value_or(""));
    recorded_.host_name = host;
    recorded_.address = at("status.podIP").value_or("");
    recorded_.hosts = recorded_.address.empty() ? "192.0.2.1" : recorded_.address;
    if (const auto subdomain = at("spec.subdomain")) {
      recorded_.hosts += fmt::format("\t{}.{}.{}.svc.cluster.local", host, *subdomain,
                                     at("metadata.namespace").value_or("default"));
    }
    recorded_.hosts += fmt::format("\t{}\n", host);
    // A container's runtime sets it, the Pod does not say it.
    if (!recorded_.environment.has("HOSTNAME")) recorded_.environment.set("HOSTNAME", host);
  }

  std::vector<yaml::Entry> document_;
  std::string container_;
  Recorded recorded_;
};

Faults refused(const std::string& path, std::string what) {
  return {{fmt::format("{}: {}", path, what),
           {path},
           "give --env-file what env -0 or env printed in the pod, or kubectl get pod NAME -o yaml"}};
}

Outcome<Recorded> read_pod(const std::string& path, std::string_view text) {
  auto document = yaml::read(text);
  if (const auto* mistake = std::get_if<yaml::Mistake>(&document)) {
    return Faults{{fmt::format("{}:{}: {}", path, mistake->line, mistake->what),
                   {path},
                   "give --env-file a Pod as kubectl get pod NAME -o yaml prints it"}};
  }
  Pod pod(std::move(std::get<std::vector<yaml::Entry>>(document)));
  const auto kind = pod.at("kind");
  if (kind != "Pod") return refused(path, fmt::format("its kind is {}, not Pod", kind.value_or("not said")));
  return pod.read();
}

}  // namespace

Outcome<Recorded> read_env_file(const std::string& path, std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    Recorded recorded = read_separated(text);
    if (!recorded.environment.entries().empty()) return recorded;
    return refused(path, "no NAME=VALUE in it");
  }
  for (std::string_view rest = text; !rest.empty();) {  // the first line that says something decides
    const std::string_view line = next_line(rest, '\n');
    if (line.empty() || line.starts_with('#') || line == "---") continue;
    if (end_of_name(line, '=') != std::string_view::npos) return read_lines(text);
    if (end_of_name(line, ':') != std::string_view::npos) return read_pod(path, text);
    break;
  }
  return refused(path, "neither variables nor a Pod");
}

}  // namespace rankshim
