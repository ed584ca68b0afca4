#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "cli/arguments.h"
#include "session/toml.h"

namespace hutch {
namespace {

struct Key {
  const char* name;
  std::function<Result<void>(Config&, const std::string&)> set;
  std::function<std::string(const Config&)> show;
};

Result<std::uint32_t> parse_count(const std::string& text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || text.front() == '-' || value > 0xffffffffUL) {
    return make_error(ErrorCode::invalid_argument, "not a number: " + text);
  }
  return static_cast<std::uint32_t>(value);
}

std::string show_time(std::chrono::milliseconds time) {
  return fmt::format("{:g}", static_cast<double>(time.count()) / 1000.0);
}

template <class Get>
Key time_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            HUTCH_TRY(get(config), parse_seconds(text));
            return {};
          },
          [get](const Config& config) { return show_time(get(const_cast<Config&>(config))); }};
}

template <class Get>
Key size_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            HUTCH_TRY(get(config), parse_size(text));
            return {};
          },
          [get](const Config& config) { return std::to_string(get(const_cast<Config&>(config)).count); }};
}

template <class Get>
Key count_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            HUTCH_TRY(get(config), parse_count(text));
            return {};
          },
          [get](const Config& config) { return std::to_string(get(const_cast<Config&>(config))); }};
}

template <class Get>
Key wide_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            HUTCH_TRY(const auto size, parse_size(text));
            get(config) = size.count;
            return {};
          },
          [get](const Config& config) { return std::to_string(get(const_cast<Config&>(config))); }};
}

template <class Get>
Key span_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            HUTCH_TRY(get(config), parse_seconds(text));
            return {};
          },
          [get](const Config& config) {
            return show_time(std::chrono::duration_cast<std::chrono::milliseconds>(get(const_cast<Config&>(config))));
          }};
}

template <class Get>
Key text_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            get(config) = text;
            return {};
          },
          [get](const Config& config) { return get(const_cast<Config&>(config)); }};
}

// Words with commas between them.
template <class Get>
Key list_key(const char* name, Get get) {
  return {name,
          [get](Config& config, const std::string& text) -> Result<void> {
            auto& list = get(config);
            list.clear();
            for (std::size_t begin = 0; begin < text.size();) {
              const std::size_t end = std::min(text.find(',', begin), text.size());
              if (end > begin) list.push_back(text.substr(begin, end - begin));
              begin = end + 1;
            }
            return {};
          },
          [get](const Config& config) { return fmt::format("{}", fmt::join(get(const_cast<Config&>(config)), ",")); }};
}

Key price_key() {
  return {"serve.price_per_cpu_second",
          [](Config& config, const std::string& text) -> Result<void> {
            char* end = nullptr;
            const double price = std::strtod(text.c_str(), &end);
            if (text.empty() || *end != '\0' || !(price >= 0) || price > 1e6) {
              return make_error(ErrorCode::invalid_argument, "not a price: " + text);
            }
            config.serve.price_per_cpu_second = price;
            return {};
          },
          [](const Config& config) { return fmt::format("{:g}", config.serve.price_per_cpu_second); }};
}

// Every key there is; the file, the variables and `hutch config` all follow this table.
const std::vector<Key>& keys() {
  static const std::vector<Key> table = {
      {"template",
       [](Config& config, const std::string& text) -> Result<void> {
         config.template_name = text;
         return {};
       },
       [](const Config& config) { return config.template_name; }},
      time_key("limits.timeout", [](Config& c) -> auto& { return c.limits.wall; }),
      time_key("limits.cpu_time", [](Config& c) -> auto& { return c.limits.cpu; }),
      size_key("limits.memory", [](Config& c) -> auto& { return c.limits.memory; }),
      count_key("limits.cpu_percent", [](Config& c) -> auto& { return c.limits.cpu_percent; }),
      count_key("limits.processes", [](Config& c) -> auto& { return c.limits.processes; }),
      count_key("limits.open_files", [](Config& c) -> auto& { return c.limits.open_files; }),
      size_key("limits.scratch", [](Config& c) -> auto& { return c.limits.scratch; }),
      count_key("limits.inodes", [](Config& c) -> auto& { return c.limits.inodes; }),
      size_key("limits.output", [](Config& c) -> auto& { return c.limits.output; }),
      time_key("engine.max_timeout", [](Config& c) -> auto& { return c.engine.ceiling.wall; }),
      size_key("engine.max_memory", [](Config& c) -> auto& { return c.engine.ceiling.memory; }),
      size_key("engine.max_scratch", [](Config& c) -> auto& { return c.engine.ceiling.scratch; }),
      count_key("engine.max_processes", [](Config& c) -> auto& { return c.engine.ceiling.processes; }),
      count_key("engine.max_cpu_percent", [](Config& c) -> auto& { return c.engine.ceiling.cpu_percent; }),
      time_key("engine.idle_exit", [](Config& c) -> auto& { return c.engine.idle_exit; }),
      count_key("engine.max_running", [](Config& c) -> auto& { return c.engine.most_running; }),
      count_key("engine.max_waiting", [](Config& c) -> auto& { return c.engine.most_waiting; }),
      count_key("engine.max_sessions", [](Config& c) -> auto& { return c.engine.most_sessions; }),
      count_key("engine.pool_min", [](Config& c) -> auto& { return c.engine.pool_least; }),
      count_key("engine.pool_max", [](Config& c) -> auto& { return c.engine.pool_most; }),
      text_key("serve.listen", [](Config& c) -> auto& { return c.serve.listen; }),
      text_key("serve.socket", [](Config& c) -> auto& { return c.serve.socket; }),
      {"serve.data",
       [](Config& config, const std::string& text) -> Result<void> {
         config.serve.data = text;
         return {};
       },
       [](const Config& config) { return config.serve.data.string(); }},
      text_key("serve.tls_certificate", [](Config& c) -> auto& { return c.serve.tls_certificate; }),
      text_key("serve.tls_key", [](Config& c) -> auto& { return c.serve.tls_key; }),
      list_key("serve.hosts", [](Config& c) -> auto& { return c.serve.hosts; }),
      list_key("serve.origins", [](Config& c) -> auto& { return c.serve.origins; }),
      text_key("serve.log", [](Config& c) -> auto& { return c.serve.log_file; }),
      size_key("serve.output_cap", [](Config& c) -> auto& { return c.serve.caps.of_stream; }),
      size_key("serve.log_cap", [](Config& c) -> auto& { return c.serve.caps.log; }),
      size_key("serve.cache", [](Config& c) -> auto& { return c.serve.cache.total; }),
      wide_key("serve.max_code", [](Config& c) -> auto& { return c.serve.most_code; }),
      wide_key("serve.max_tool_code", [](Config& c) -> auto& { return c.serve.most_tool_code; }),
      list_key("serve.packages", [](Config& c) -> auto& { return c.serve.package_allowlist; }),
      text_key("agent.api", [](Config& c) -> auto& { return c.serve.agent_api; }),
      text_key("agent.base_url", [](Config& c) -> auto& { return c.serve.agent_base_url; }),
      text_key("agent.model", [](Config& c) -> auto& { return c.serve.agent_model; }),
      text_key("agent.key_file", [](Config& c) -> auto& { return c.serve.agent_key_file; }),
      wide_key("serve.max_body", [](Config& c) -> auto& { return c.serve.most_body; }),
      wide_key("serve.max_upload", [](Config& c) -> auto& { return c.serve.most_upload; }),
      count_key("serve.runs_per_minute", [](Config& c) -> auto& { return c.serve.runs_per_minute; }),
      count_key("serve.concurrent_runs", [](Config& c) -> auto& { return c.serve.concurrent_runs; }),
      count_key("serve.sessions_per_key", [](Config& c) -> auto& { return c.serve.sessions_per_key; }),
      wide_key("serve.run_space", [](Config& c) -> auto& { return c.serve.run_space; }),
      count_key("serve.keep_runs", [](Config& c) -> auto& { return c.serve.keep_most_runs; }),
      price_key(),
      count_key("serve.connections_per_peer", [](Config& c) -> auto& { return c.serve.connections_per_peer; }),
      span_key("serve.header_time", [](Config& c) -> auto& { return c.serve.times.header; }),
      time_key("serve.stop_grace", [](Config& c) -> auto& { return c.serve.stop_grace; }),
  };
  return table;
}

Result<void> set(Config& config, std::vector<std::string>& origins, const std::string& name, const std::string& value,
                 const std::string& origin) {
  for (std::size_t i = 0; i < keys().size(); ++i) {
    if (keys()[i].name != name) continue;
    auto done = keys()[i].set(config, value);
    if (!done) return std::move(done).error().during(origin + ": " + name);
    origins[i] = origin;
    return {};
  }
  std::string known;
  for (const auto& key : keys()) known += std::string(known.empty() ? "" : ", ") + key.name;
  return make_error(ErrorCode::invalid_argument, origin + ": unknown key " + name).with_hint("known keys: " + known);
}

std::optional<std::string> as_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  return std::nullopt;
}

Result<void> read_table(Config& config, std::vector<std::string>& origins, const toml::table& table,
                        const std::string& prefix, const std::string& path) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      HUTCH_TRY(read_table(config, origins, *inner, name + ".", path));
      continue;
    }
    const auto text = as_text(node);
    if (!text) return make_error(ErrorCode::invalid_argument, path + ": " + name + " must be a number or a text");
    HUTCH_TRY(set(config, origins, name, *text, path));
  }
  return {};
}

std::filesystem::path config_path() {
  if (const char* named = std::getenv("HUTCH_CONFIG")) return named;
  if (const char* base = std::getenv("XDG_CONFIG_HOME")) return std::filesystem::path(base) / "hutch/config.toml";
  if (const char* home = std::getenv("HOME")) return std::filesystem::path(home) / ".config/hutch/config.toml";
  return {};
}

Result<void> read_file(Config& config, std::vector<std::string>& origins) {
  const auto path = config_path();
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) {
    if (std::getenv("HUTCH_CONFIG") == nullptr) return {};
    return make_error(ErrorCode::not_found, "HUTCH_CONFIG names a file that is not there: " + path.string());
  }
  const auto parsed = toml::parse_file(path.string());
  if (!parsed) {
    return make_error(
        ErrorCode::invalid_argument,
        fmt::format("{}:{}: {}", path.string(), parsed.error().source().begin.line, parsed.error().description()));
  }
  return read_table(config, origins, parsed.table(), "", path.string());
}

// Where the configuration says 0, it leaves it to the machine; the operator's own defaults are allowed in any case.
void complete(LimitCeiling& ceiling, const Limits& defaults) {
  const auto machine = LimitCeiling::of_this_machine();
  if (ceiling.memory.count == 0) ceiling.memory = std::max(machine.memory, defaults.memory);
  if (ceiling.cpu_percent == 0) ceiling.cpu_percent = std::max(machine.cpu_percent, defaults.cpu_percent);
}

}  // namespace

Result<Config> Config::load() {
  Config config;
  config.engine.ceiling.memory = Bytes{0};
  config.engine.ceiling.cpu_percent = 0;
  std::vector<std::string> origins(keys().size(), "default");
  HUTCH_TRY(read_file(config, origins));
  for (const auto& key : keys()) {
    std::string variable = "HUTCH_";
    for (const char letter : std::string_view(key.name)) {
      variable += letter == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    }
    if (const char* value = std::getenv(variable.c_str())) HUTCH_TRY(set(config, origins, key.name, value, variable));
  }
  complete(config.engine.ceiling, config.limits);
  for (std::size_t i = 0; i < keys().size(); ++i) {
    config.entries.push_back({.key = keys()[i].name, .value = keys()[i].show(config), .origin = origins[i]});
  }
  return config;
}

}  // namespace hutch
