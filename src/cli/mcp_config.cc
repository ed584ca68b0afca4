#include "cli/mcp_config.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>

#include "api/json_text.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::string_view kName = "hutch";
constexpr std::string_view kVariable = "HUTCH_KEY";

// One member a line, as people write it by hand; what holds nothing but texts stays on one.
void write_pretty(std::string& text, const json::value& value, std::size_t depth) {
  const auto* object = value.if_object();
  if (object == nullptr || object->empty()) {
    text += json_text(value);
    return;
  }
  text += "{\n";
  bool first = true;
  for (const auto& [name, member] : *object) {
    if (!std::exchange(first, false)) text += ",\n";
    text += std::string(2 * (depth + 1), ' ') + json_text(json::value(name)) + ": ";
    write_pretty(text, member, depth + 1);
  }
  text += "\n" + std::string(2 * depth, ' ') + "}";
}

std::string pretty(const json::object& object) {
  std::string text;
  write_pretty(text, object, 0);
  return text;
}

json::array list(const std::vector<std::string>& items) { return json::array(items.begin(), items.end()); }

struct Asked {
  std::string program;
  std::vector<std::string> arguments;
  std::string http;

  [[nodiscard]] json::object stdio() const { return {{"command", program}, {"args", list(arguments)}}; }
  // `key` is how this client writes the value of an environment variable.
  [[nodiscard]] json::object remote(std::string_view address, std::string_view key) const {
    return {{address, http}, {"headers", {{"Authorization", "Bearer " + std::string(key)}}}};
  }
};

std::string under(std::string_view section, json::object entry) {
  return pretty({{section, {{kName, std::move(entry)}}}});
}

json::object with_type(std::string_view type, json::object entry) {
  json::object result{{"type", type}};
  for (const auto& [name, value] : entry) result[name] = value;
  return result;
}

// It starts programs only; one that carries messages to an address is needed in between.
std::string claude_desktop(const Asked& asked) {
  if (asked.http.empty()) return under("mcpServers", asked.stdio());
  const json::array arguments{"-y", "mcp-remote", asked.http, "--header", "Authorization:${AUTHORIZATION}"};
  return under("mcpServers",
               {{"command", "npx"}, {"args", arguments}, {"env", {{"AUTHORIZATION", "Bearer <the key>"}}}});
}

std::string claude_code(const Asked& asked) {
  return under("mcpServers", asked.http.empty() ? with_type("stdio", asked.stdio())
                                                : with_type("http", asked.remote("url", "${HUTCH_KEY}")));
}

std::string cursor(const Asked& asked) {
  return under("mcpServers", asked.http.empty() ? asked.stdio() : asked.remote("url", "${env:HUTCH_KEY}"));
}

std::string vscode(const Asked& asked) {
  if (asked.http.empty()) return under("servers", with_type("stdio", asked.stdio()));
  const json::object input{
      {"type", "promptString"}, {"id", "hutch-key"}, {"description", "Key of the Hutch daemon"}, {"password", true}};
  return pretty({{"inputs", json::array{input}},
                 {"servers", {{kName, with_type("http", asked.remote("url", "${input:hutch-key}"))}}}});
}

std::string windsurf(const Asked& asked) {
  return under("mcpServers", asked.http.empty() ? asked.stdio() : asked.remote("serverUrl", "${env:HUTCH_KEY}"));
}

std::string zed(const Asked& asked) {
  json::object local = asked.stdio();
  local["env"] = json::object{};
  return under("context_servers", asked.http.empty() ? std::move(local) : asked.remote("url", "<the key>"));
}

std::string goose(const Asked& asked) {
  std::string text = fmt::format("extensions:\n  {0}:\n    name: {0}\n    enabled: true\n    timeout: 300\n", kName);
  if (asked.http.empty()) {  // a JSON string or list is YAML, too
    text += fmt::format("    type: stdio\n    cmd: {}\n    args: {}\n    envs: {{}}",
                        json_text(json::value(asked.program)), json_text(list(asked.arguments)));
  } else {
    text +=
        fmt::format("    type: streamable_http\n    uri: {}\n    headers:\n      Authorization: \"Bearer <the key>\"",
                    json_text(json::value(asked.http)));
  }
  return text;
}

std::string codex(const Asked& asked) {
  std::string text = fmt::format("[mcp_servers.{}]\n", kName);
  if (asked.http.empty()) {  // and TOML
    return text + fmt::format("command = {}\nargs = {}", json_text(json::value(asked.program)),
                              json_text(list(asked.arguments)));
  }
  return text + fmt::format("url = {}\nbearer_token_env_var = \"{}\"", json_text(json::value(asked.http)), kVariable);
}

std::string gemini_cli(const Asked& asked) {
  return under("mcpServers", asked.http.empty() ? asked.stdio() : asked.remote("httpUrl", "$HUTCH_KEY"));
}

struct Client {
  std::string_view name, where;
  std::string (*write)(const Asked& asked);
};

constexpr std::array kClients{
    Client{
        "claude-desktop",
        "into claude_desktop_config.json (Settings, Developer, Edit Config): ~/Library/Application Support/Claude on "
        "macOS, %APPDATA%\\Claude on Windows, ~/.config/Claude on Linux; then restart it",
        claude_desktop},
    Client{"claude-code", "into .mcp.json of the project, or: claude mcp add-json hutch '<what is under hutch>'",
           claude_code},
    Client{"cursor", "into ~/.cursor/mcp.json, or .cursor/mcp.json of the project", cursor},
    Client{"vscode", "into .vscode/mcp.json of the workspace, or the user's (command MCP: Open User Configuration)",
           vscode},
    Client{"windsurf", "into ~/.codeium/windsurf/mcp_config.json; then refresh the list of servers", windsurf},
    Client{"zed", "into Zed's settings.json (command zed: open settings file)", zed},
    Client{"goose", "into ~/.config/goose/config.yaml", goose},
    Client{"codex", "into ~/.codex/config.toml", codex},
    Client{"gemini-cli", "into ~/.gemini/settings.json, or .gemini/settings.json of the project", gemini_cli},
};

}  // namespace

Result<ClientConfig> client_config(const std::string& client, const std::string& program,
                                   const std::vector<std::string>& arguments, const std::string& http) {
  for (const auto& known : kClients) {
    if (known.name != client) continue;
    std::string where(known.where);
    if (!http.empty())
      where += fmt::format("\nthe key: hutch key create NAME; where ${} is named, export it there", kVariable);
    return ClientConfig{.where = std::move(where),
                        .snippet = known.write({.program = program, .arguments = arguments, .http = http})};
  }
  std::string names;
  for (const auto& known : kClients) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return make_error(ErrorCode::invalid_argument, "no configuration is known for " + client)
      .with_hint("known: " + names);
}

}  // namespace hutch
