#include "pod/env_file.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "pod/flat_json.h"
#include "pod/yaml.h"

namespace rankshim {
namespace {

constexpr std::string_view name_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-%()";

/// Where the name ends in front of `mark`; npos if the line does not begin with a name and the mark.
std::size_t end_of_name(std::string_view line, char mark) {
  const auto end = line.find_first_not_of(name_letters);
  return end != 0 && end != std::string_view::npos && line[end] == mark ? end : std::string_view::npos;
}

std::string_view next_line(std::string_view& text) {
  std::string_view line = take_line(text);
  if (line.ends_with('\r')) line.remove_suffix(1);
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
    const std::string_view entry = take_part(text, std::string_view("\0", 1));
    if (entry.find('=') != std::string_view::npos) entries.emplace_back(entry);
  }
  return from_entries(std::move(entries));
}

Recorded read_lines(std::string_view text) {
  std::vector<std::string> entries;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (end_of_name(line, '=') != std::string_view::npos) {
      entries.emplace_back(line);
    } else if (!entries.empty() && !line.starts_with('#')) {
      entries.back().append("\n").append(line);
    }
  }
  return from_entries(std::move(entries));
}

/// One Pod in the flat form.
class Pod {
 public:
  explicit Pod(std::vector<flat::Entry> document) : document_(std::move(document)) {}

  [[nodiscard]] std::optional<std::string_view> at(std::string_view path) const {
    for (const flat::Entry& entry : document_) {
      if (entry.path == path) return entry.text;
    }
    return std::nullopt;
  }

  /// `wanted` is the container's name; if it is empty, the Pod decides.
  Outcome<Recorded> read(std::string_view wanted) {
    if (auto fault = choose_container(wanted)) return Faults{std::move(*fault)};
    Variable variable;
    std::string_view index;
    for (const flat::Entry& entry : document_) {
      std::string_view rest = entry.path;
      if (container_.empty() || !rest.starts_with(container_)) continue;
      rest.remove_prefix(container_.size());
      if (rest.starts_with("envFrom.0.")) note("the variables of its envFrom are not in the file");
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
    set_host();
    return std::move(recorded_);
  }

 private:
  struct Variable {
    std::string_view name;
    std::string value;
    std::string_view elsewhere;  ///< the value's source if it is outside the file
  };

  void note(std::string text) {
    for (const std::string& known : recorded_.notes) {
      if (known == text) return;
    }
    recorded_.notes.push_back(std::move(text));
  }

  struct Container {
    std::string path;  ///< "spec.containers.0."
    std::string_view name;
    bool runs_rankshim = false;
  };

  /// The containers of one of the Pod's lists: "spec.containers." or "spec.initContainers."
  [[nodiscard]] std::vector<Container> containers(std::string_view list) const {
    std::vector<Container> found;
    for (const flat::Entry& entry : document_) {
      std::string_view rest = entry.path;
      if (!rest.starts_with(list)) continue;
      rest.remove_prefix(list.size());
      const auto dot = rest.find('.');
      if (dot == std::string_view::npos) continue;
      const std::string_view path = std::string_view(entry.path).substr(0, list.size() + dot + 1);
      if (found.empty() || found.back().path != path) found.push_back({std::string(path), "", false});
      const std::string_view key = rest.substr(dot + 1);
      if (key == "name") found.back().name = entry.text;
      if (key.starts_with("command.") || key.starts_with("args."))
        found.back().runs_rankshim |= is_rankshim(entry.text);
    }
    return found;
  }

  /// Whether a word of a command is rankshim's path, or a shell command line that begins with it.
  static bool is_rankshim(std::string_view word) {
    word = trimmed(word);
    word = word.substr(0, word.find_first_of(" \t\n"));
    return base_name(word) == "rankshim";
  }

  /// Chooses the container. If no name is wanted: of the containers that run rankshim, if there are any, the
  /// one that kubectl would choose, which is the annotation's or the first. Init containers only install
  /// rankshim, so they are chosen only by name. Returns a fault if the wanted container does not exist.
  std::optional<Fault> choose_container(std::string_view wanted) {
    const std::vector<Container> workers = containers("spec.containers.");
    if (!wanted.empty()) {
      std::string names;
      for (const auto& group : {workers, containers("spec.initContainers.")}) {
        for (const Container& container : group) {
          if (container.name == wanted) return container_ = container.path, std::nullopt;
          names.append(names.empty() ? "" : ", ").append(container.name);
        }
      }
      return Fault{fmt::format("the Pod has no container {}; its containers are {}", in_quotes(wanted),
                               names.empty() ? "none" : names),
                   {"--container"},
                   "correct --container"};
    }
    const bool some = std::any_of(workers.begin(), workers.end(),
                                  [](const Container& container) { return container.runs_rankshim; });
    const auto annotated = at("metadata.annotations.kubectl.kubernetes.io/default-container");
    const Container* chosen = nullptr;
    bool others = false;
    for (const Container& container : workers) {
      if (container.runs_rankshim != some) continue;
      others = chosen != nullptr;
      if (chosen == nullptr || container.name == annotated) chosen = &container;
      if (container.name == annotated) break;
    }
    if (chosen == nullptr) return std::nullopt;
    container_ = chosen->path;
    if (others && chosen->name != annotated)
      note(fmt::format("of the Pod's containers{}, only the first{} is read; name another with --container",
                       some ? " that run rankshim" : "",
                       chosen->name.empty() ? "" : fmt::format(", {},", chosen->name)));
    return std::nullopt;
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

  /// metadata.labels['a/b'] in the flat form: metadata.labels.a/b
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
      variable.elsewhere = "a field of the Pod that is not in the file";
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

  /// Replaces $(NAME) by the value of an earlier variable, and $$ by $ (Kubernetes documentation, "Define
  /// Dependent Environment Variables").
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

  /// Sets the host name and the line that the kubelet writes into /etc/hosts (kubernetes:pkg/kubelet/
  /// kubelet_pods.go, ensureHostsFile).
  void set_host() {
    const std::string_view host = at("spec.hostname").value_or(at("metadata.name").value_or(""));
    recorded_.host_name = host;
    recorded_.address = at("status.podIP").value_or("");
    recorded_.hosts = recorded_.address.empty() ? "192.0.2.1" : recorded_.address;
    if (const auto subdomain = at("spec.subdomain")) {
      recorded_.hosts += fmt::format("\t{}.{}.{}.svc.cluster.local", host, *subdomain,
                                     at("metadata.namespace").value_or("default"));
    }
    recorded_.hosts += fmt::format("\t{}\n", host);
    // The container runtime sets it; it is not part of the Pod.
    if (!recorded_.environment.has("HOSTNAME")) recorded_.environment.set("HOSTNAME", host);
  }

  std::vector<flat::Entry> document_;
  std::string container_;
  Recorded recorded_;
};

Faults refused(const std::string& path, std::string what) {
  return {
      {fmt::format("{}: {}", path, what),
       {path},
       "give --env-file what env -0 or env printed in the pod, or kubectl get pod NAME -o yaml (or json)"}};
}

/// Reduces a List of one Pod, as kubectl prints it for a selector, to the Pod. Returns false if the List has
/// several.
bool take_from_list(std::vector<flat::Entry>& document) {
  const bool list = std::any_of(document.begin(), document.end(), [](const flat::Entry& entry) {
    return entry.path == "kind" && (entry.text == "List" || entry.text == "PodList");
  });
  if (!list) return true;
  constexpr std::string_view only = "items.0.";
  std::vector<flat::Entry> pod;
  for (flat::Entry& entry : document) {
    if (entry.path.starts_with("items.1.")) return false;
    if (entry.path.starts_with(only)) pod.push_back({entry.path.substr(only.size()), std::move(entry.text)});
  }
  document = std::move(pod);
  return true;
}

Outcome<Recorded> read_pod(const std::string& path, flat::Document document, std::string_view container) {
  if (const auto* mistake = std::get_if<flat::Mistake>(&document)) {
    return Faults{{fmt::format("{}:{}: {}", path, mistake->line, mistake->what),
                   {path},
                   "give --env-file a Pod as kubectl get pod NAME -o yaml (or json) prints it"}};
  }
  auto& entries = std::get<std::vector<flat::Entry>>(document);
  if (!take_from_list(entries)) return refused(path, "it is a List of several Pods, and one is read");
  Pod pod(std::move(entries));
  const auto kind = pod.at("kind");
  if (kind != "Pod") return refused(path, fmt::format("its kind is {}, not Pod", kind.value_or("missing")));
  return pod.read(container);
}

}  // namespace

Outcome<Recorded> read_env_file(const std::string& path, std::string_view text, std::string_view container) {
  Faults no_pod = {
      {path + " is not a Pod, so it has no containers", {path, "--container"}, "leave out --container"}};
  if (text.find('\0') != std::string_view::npos) {
    if (!container.empty()) return no_pod;
    Recorded recorded = read_separated(text);
    if (!recorded.environment.entries().empty()) return recorded;
    return refused(path, "it has no NAME=VALUE");
  }
  for (std::string_view rest = text;
       !rest.empty();) {  // the first line that is not empty or a comment decides
    const std::string_view line = next_line(rest);
    if (line.empty() || line.starts_with('#') || line == "---") continue;
    if (end_of_name(line, '=') != std::string_view::npos)
      return container.empty() ? Outcome<Recorded>(read_lines(text)) : no_pod;
    if (line.starts_with('{')) return read_pod(path, json::read_flat(text), container);
    if (end_of_name(line, ':') != std::string_view::npos) return read_pod(path, yaml::read(text), container);
    break;
  }
  return refused(path, "neither variables nor a Pod");
}

}  // namespace rankshim
