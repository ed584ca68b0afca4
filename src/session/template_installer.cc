#include "session/template_installer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <ranges>

#include "base/subprocess.h"

namespace hutch {

namespace fs = std::filesystem;

namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

constexpr auto kInstallTimeout = std::chrono::minutes{60};
constexpr auto kQueryTimeout = std::chrono::minutes{2};

Environment to_map(const std::vector<std::string>& list) {
  Environment map;
  for (const auto& entry : list) {
    if (const auto equals = entry.find('='); equals != std::string::npos) {
      map[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return map;
}

// What would make an installer work on another environment, build from source, or be seen by the tree's interpreter.
bool leads_elsewhere(std::string_view name) {
  constexpr std::array<std::string_view, 18> kNames = {"VIRTUAL_ENV",
                                                       "PIP_TARGET",
                                                       "PIP_PREFIX",
                                                       "PIP_ROOT",
                                                       "PIP_USER",
                                                       "PIP_PYTHON",
                                                       "PIP_NO_BINARY",
                                                       "PIP_SRC",
                                                       "PIP_REQUIREMENT",
                                                       "PIP_EDITABLE",
                                                       "PIP_DRY_RUN",
                                                       "UV_PYTHON",
                                                       "UV_SYSTEM_PYTHON",
                                                       "UV_PROJECT",
                                                       "UV_NO_BINARY",
                                                       "UV_NO_BINARY_PACKAGE",
                                                       "UV_WORKING_DIRECTORY",
                                                       "UV_TARGET"};
  return name.starts_with("PYTHON") || name.starts_with("CONDA_") || std::ranges::find(kNames, name) != kNames.end();
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// `pip config list` prints Python literals: global.index-url='https://…', several values as '\none\ntwo'.
Environment parse_pip_settings(std::string_view text) {
  Environment settings;
  for (const auto part : std::views::split(text, '\n')) {
    const std::string_view line(part.begin(), part.end());
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || equals + 2 >= line.size()) continue;
    const auto key = line.substr(0, equals);
    const auto dot = key.rfind('.');
    if (dot == std::string_view::npos) continue;
    std::string value(line.substr(equals + 2, line.size() - equals - 3));  // without the quotes
    for (auto at = value.find("\\n"); at != std::string::npos; at = value.find("\\n")) value.replace(at, 2, " ");
    settings[std::string(key.substr(dot + 1))] = trimmed(value);
  }
  return settings;
}

void set_default(Environment& environment, std::string_view name, std::string value) {
  if (!value.empty()) environment.try_emplace(std::string(name), std::move(value));
}

// uv refuses a local directory that is not there; pip only warns. uv separates by commas, pip by spaces.
std::string existing_links(const std::string& links) {
  std::string kept;
  for (const auto part : std::views::split(links, ' ')) {
    const std::string link(part.begin(), part.end());
    std::error_code failed;
    if (link.empty() || (link.starts_with('/') && !fs::exists(link, failed))) continue;
    kept += (kept.empty() ? "" : ",") + link;
  }
  return kept;
}

// The host's own list: what the other programs of the host trust.
std::string host_certificates() {
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}) {
    if (::access(path, R_OK) == 0) return path;
  }
  return {};
}

std::string value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

fs::path find_on_path(std::string_view program, const std::string& path) {
  for (const auto part : std::views::split(path, ':')) {
    const std::string directory(part.begin(), part.end());
    if (!directory.starts_with('/')) continue;
    auto candidate = fs::path(directory) / program;
    std::error_code failed;
    if (fs::is_regular_file(candidate, failed) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

bool works(const fs::path& uv, const std::vector<std::string>& environment) {
  const auto done =
      run_command({.argv = {uv.string(), "--version"}, .environment = environment, .timeout = kQueryTimeout});
  return done && done->exit_code == 0;
}

// Of the many lines of an installer without a network the last that says why.
std::string network_complaint(std::string_view output) {
  constexpr std::size_t kLongest = 300;
  std::string_view last;
  for (const auto part : std::views::split(output, '\n')) {
    const std::string_view line(part.begin(), part.end());
    if (tells_of_no_network(line)) last = line;
  }
  return trimmed(last.substr(0, kLongest));
}

// Installers end with "error: …" and its causes; what comes before is progress.
std::string what_went_wrong(std::string_view output) {
  for (const std::string_view sign : {"\nerror: ", "\nERROR: "}) {
    if (const auto at = output.find(sign); at != std::string_view::npos)
      return trimmed(output.substr(at + sign.size()));
  }
  return std::string(output);
}

Result<void> run_installer(const Command& command) {
  auto done = run_checked(command);
  if (done) return {};
  if (!tells_of_no_network(done.error().message)) {
    return make_error(ErrorCode::system, what_went_wrong(done.error().message));
  }
  return make_error(ErrorCode::disconnected,
                    "the package index cannot be reached\n" + network_complaint(done.error().message))
      .with_hint(
          "Check the network, HTTPS_PROXY and the index settings of pip or uv; the template bare needs no download.");
}

// A virtual environment with pip, in which uv is installed too.
Result<fs::path> make_tools(const Interpreter& interpreter, const fs::path& directory,
                            const std::vector<std::string>& environment) {
  const auto python = directory / "bin" / "python";
  const Command has_pip{
      .argv = {python.string(), "-I", "-m", "pip", "--version"}, .environment = environment, .timeout = kQueryTimeout};
  if (::access(python.c_str(), X_OK) == 0) {
    if (const auto done = run_command(has_pip); done && done->exit_code == 0) return python;
  }
  const auto check = run_command({.argv = {interpreter.path.string(), "-I", "-c", "import ensurepip, venv"},
                                  .environment = environment,
                                  .timeout = kQueryTimeout});
  if (!check || check->exit_code != 0) {
    const auto version = to_string(interpreter.version);
    return make_error(ErrorCode::unsupported, interpreter.path.string() + " lacks the modules venv and ensurepip")
        .with_hint("Install uv, or Debian's python" + version + "-venv (apt install python3-venv).");
  }
  HUTCH_TRY(run_checked({.argv = {interpreter.path.string(), "-I", "-m", "venv", "--clear", directory.string()},
                         .environment = environment,
                         .timeout = kQueryTimeout}));
  return python;
}

}  // namespace

bool tells_of_no_network(std::string_view output) {
  constexpr std::array<std::string_view, 14> kSigns = {"dns error",
                                                       "Temporary failure in name resolution",
                                                       "Name or service not known",
                                                       "Connection refused",
                                                       "Network is unreachable",
                                                       "No route to host",
                                                       "tcp connect error",
                                                       "NewConnectionError",
                                                       "ConnectTimeoutError",
                                                       "Connection reset",
                                                       "error sending request",
                                                       "client error (Connect)",
                                                       "ProxyError",
                                                       "Could not connect, are you offline?"};
  return std::ranges::any_of(kSigns, [output](auto sign) { return output.contains(sign); });
}

std::vector<std::string> installer_environment(const std::vector<std::string>& caller, std::string_view pip_settings) {
  auto environment = to_map(caller);
  std::erase_if(environment, [](const auto& entry) { return leads_elsewhere(entry.first); });
  auto pip = parse_pip_settings(pip_settings);
  const auto told_pip = [&](const std::string& variable, const std::string& key) {
    auto value = value_of(environment, variable);
    return value.empty() ? value_of(pip, key) : value;
  };
  // A uv that has been told about an index needs nothing from pip's settings.
  if (!environment.contains("UV_INDEX_URL") && !environment.contains("UV_INDEX")) {
    set_default(environment, "UV_DEFAULT_INDEX", told_pip("PIP_INDEX_URL", "index-url"));
    set_default(environment, "UV_INDEX", told_pip("PIP_EXTRA_INDEX_URL", "extra-index-url"));
    set_default(environment, "UV_FIND_LINKS", existing_links(told_pip("PIP_FIND_LINKS", "find-links")));
  }
  if (const auto none = told_pip("PIP_NO_INDEX", "no-index"); !none.empty() && none != "0" && none != "false") {
    set_default(environment, "UV_NO_INDEX", "1");
  }
  auto certificates = told_pip("PIP_CERT", "cert");
  if (certificates.empty()) certificates = value_of(environment, "REQUESTS_CA_BUNDLE");
  if (certificates.empty()) certificates = host_certificates();
  set_default(environment, "SSL_CERT_FILE", certificates);
  set_default(environment, "PIP_CERT", value_of(environment, "SSL_CERT_FILE"));
  set_default(environment, "PATH", "/usr/local/bin:/usr/bin:/bin");
  environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1";
  environment["PIP_NO_INPUT"] = "1";
  set_default(environment, "PIP_RETRIES", "2");  // without a network say so soon
  environment["UV_PYTHON_DOWNLOADS"] = "never";
  environment["UV_NO_PROGRESS"] = "1";
  environment["NO_COLOR"] = "1";
  environment["LC_ALL"] = "C.UTF-8";
  std::vector<std::string> list;
  for (const auto& [name, value] : environment) list.push_back(name + "=" + value);
  return list;
}

Result<Installer> Installer::find(const Interpreter& interpreter, const fs::path& tools,
                                  const std::vector<std::string>& caller_environment, const Lines& lines) {
  // The host's pip reads pip.conf; without pip there are no such settings to honour.
  const auto settings = run_command({.argv = {interpreter.path.string(), "-m", "pip", "config", "list"},
                                     .environment = installer_environment(caller_environment, {}),
                                     .timeout = kQueryTimeout});
  auto environment = installer_environment(
      caller_environment, settings && settings->exit_code == 0 ? std::string_view(settings->output) : "");
  auto uv = find_on_path("uv", value_of(to_map(environment), "PATH"));
  if (!uv.empty() && works(uv, environment)) return Installer(true, uv, std::move(environment));
  const auto directory = tools / "uv";
  uv = directory / "bin" / "uv";
  if (::access(uv.c_str(), X_OK) == 0 && works(uv, environment)) return Installer(true, uv, std::move(environment));

  HUTCH_TRY(const auto python, make_tools(interpreter, directory, environment));
  auto installed =
      run_installer({.argv = {python.string(), "-I", "-m", "pip", "install", "--only-binary", ":all:", "--", "uv"},
                     .environment = environment,
                     .timeout = kInstallTimeout,
                     .on_line = lines});
  if (installed && works(uv, environment)) return Installer(true, uv, std::move(environment));
  if (!installed && installed.error().code == ErrorCode::disconnected) return std::move(installed).error();
  return Installer(false, python, std::move(environment));
}

std::vector<std::string> Installer::command_line(const fs::path& python, std::vector<std::string> words) const {
  std::vector<std::string> line = {program_.string()};
  if (uses_uv_) {
    line.insert(line.end(), {"pip", words.front(), "--python", python.string()});
  } else {
    line.insert(line.end(), {"-I", "-m", "pip", "--python", python.string(), words.front()});
  }
  line.insert(line.end(), words.begin() + 1, words.end());
  return line;
}

Result<void> Installer::install(const fs::path& python, const std::vector<std::string>& packages,
                                const Lines& lines) const {
  std::vector<std::string> words = {"install", "--only-binary", ":all:"};
  // Copies: a tree must not change with uv's cache. Compiling is a step of its own, for both.
  if (uses_uv_) words.insert(words.end(), {"--link-mode", "copy"});
  if (!uses_uv_) words.emplace_back("--no-compile");
  words.emplace_back("--");
  words.insert(words.end(), packages.begin(), packages.end());
  return run_installer({.argv = command_line(python, std::move(words)),
                        .environment = environment_,
                        .directory = python.parent_path(),  // not where a stray pyproject.toml may lie
                        .timeout = kInstallTimeout,
                        .on_line = lines});
}

Result<void> Installer::unpack(const fs::path& python, std::string_view package, const fs::path& directory,
                               const Lines& lines) const {
  return run_installer({.argv = command_line(python, {"install", "--only-binary", ":all:", "--no-deps", "--target",
                                                      directory.string(), "--", std::string(package)}),
                        .environment = environment_,
                        .directory = python.parent_path(),
                        .timeout = kInstallTimeout,
                        .on_line = lines});
}

Result<std::vector<std::string>> Installer::installed(const fs::path& python) const {
  HUTCH_TRY(const auto done, run_checked({.argv = command_line(python, {"freeze"}),
                                          .environment = environment_,
                                          .directory = python.parent_path(),
                                          .timeout = kQueryTimeout}));
  std::vector<std::string> packages;
  for (const auto part : std::views::split(done.output, '\n')) {
    if (const std::string line(part.begin(), part.end()); line.contains("==")) packages.push_back(line);
  }
  std::ranges::sort(packages);
  return packages;
}

}  // namespace hutch
