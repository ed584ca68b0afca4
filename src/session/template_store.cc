#include "session/template_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>

#include "base/sha256.h"
#include "base/unique_fd.h"

namespace hutch {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLayout = "hutch-tree-1";  // change it when trees must be built anew
constexpr std::size_t kFingerprintDigits = 16;

constexpr unsigned char kBare[] = {
#embed "../../templates/bare.toml"
};
constexpr unsigned char kDefault[] = {
#embed "../../templates/default.toml"
};
constexpr unsigned char kViz[] = {
#embed "../../templates/viz.toml"
};

struct BuiltIn {
  std::string_view name;
  std::string_view text;
};

template <std::size_t size>
std::string_view text_of(const unsigned char (&bytes)[size]) {
  return {reinterpret_cast<const char*>(bytes), size};
}

const std::array<BuiltIn, 3>& built_ins() {
  static const std::array<BuiltIn, 3> all = {
      {{"bare", text_of(kBare)}, {"default", text_of(kDefault)}, {"viz", text_of(kViz)}}};
  return all;
}

Result<std::string> read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return system_error(errno).during("open " + path.string());
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad()) return make_error(ErrorCode::system, "read " + path.string());
  return std::move(text).str();
}

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// Asks without taking: a reader must not get into the way of a build that is about to start.
bool is_locked(const fs::path& path) {
  const UniqueFd fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  if (!fd) return false;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// Edits between two names: insert, delete or replace one letter.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const auto replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

Error unknown_name(std::string_view name, const std::vector<std::string>& known) {
  auto error = make_error(ErrorCode::not_found,
                          fmt::format("there is no template '{}'; known templates: {}", name, fmt::join(known, ", ")));
  const auto nearest = std::ranges::min_element(known, {}, [&](const auto& other) { return distance(name, other); });
  if (nearest != known.end() && distance(name, *nearest) <= 2) error.hint = fmt::format("Did you mean {}?", *nearest);
  return error;
}

Result<fs::path> base_directory(const char* variable, std::string_view beneath_home) {
  if (const char* value = std::getenv(variable); value != nullptr && value[0] == '/') return fs::path(value);
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return fs::path(home) / beneath_home;
  return make_error(ErrorCode::invalid_argument, fmt::format("neither {} nor HOME is set", variable))
      .with_hint("Set HUTCH_DATA_DIR to a directory for Hutch's files.");
}

}  // namespace

std::string_view to_string(TemplateState state) {
  switch (state) {
    case TemplateState::not_built:
      return "not built";
    case TemplateState::creating:
      return "creating";
    case TemplateState::ready:
      return "ready";
    case TemplateState::error:
      return "error";
  }
  return "unknown";
}

Result<TemplatePaths> TemplatePaths::from_environment() {
  TemplatePaths paths;
  if (const char* data = std::getenv("HUTCH_DATA_DIR"); data != nullptr && data[0] != '\0') {
    paths.data = data;
  } else {
    HUTCH_TRY(const auto base, base_directory("XDG_DATA_HOME", ".local/share"));
    paths.data = base / "hutch";
  }
  // A service may have neither HOME nor definitions of its own.
  if (auto base = base_directory("XDG_CONFIG_HOME", ".config"); base) paths.user = *base / "hutch" / "templates";
  return paths;
}

std::string tree_fingerprint(const TemplateFile& file, const Interpreter& interpreter) {
  Sha256 hash;
  // Every part is followed by a byte that none of them can contain.
  const auto add = [&hash](std::string_view part) {
    hash.update(part);
    hash.update({"\0", 1});
  };
  add(kLayout);
  add(interpreter.path.string());
  add(to_string(interpreter.version));
  for (const auto& package : file.packages) add(package);
  return hash.hex().substr(0, kFingerprintDigits);
}

Result<TemplateStore> TemplateStore::open(TemplatePaths paths) {
  if (!paths.data.is_absolute()) {
    return make_error(ErrorCode::invalid_argument,
                      "the data directory must be an absolute path: " + paths.data.string())
        .with_hint("Set HUTCH_DATA_DIR to an absolute path.");
  }
  paths.data = paths.data.lexically_normal();
  return TemplateStore(std::move(paths));
}

fs::path TemplateStore::lock_file(std::string_view name) const { return directory() / (std::string(name) + ".lock"); }

std::vector<std::string> TemplateStore::names() const {
  std::vector<std::string> names;
  for (const auto& built_in : built_ins()) names.emplace_back(built_in.name);
  std::error_code failed;
  for (fs::directory_iterator entry(paths_.user, failed), end; !failed && entry != end; entry.increment(failed)) {
    const auto& path = entry->path();
    if (path.extension() == ".toml" && check_template_name(path.stem().string())) names.push_back(path.stem());
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

namespace {

// They do not change while we live, and a command, its engine and the keeper's options all ask for the same one.
Result<TemplateFile> parse_built_in(std::string_view name, std::string_view text) {
  static std::mutex mutex;
  static std::map<std::string, TemplateFile, std::less<>> parsed;
  const std::scoped_lock lock(mutex);
  if (const auto found = parsed.find(name); found != parsed.end()) return found->second;
  HUTCH_TRY(auto file, parse_template_file(name, text, "built-in"));
  return parsed.emplace(name, std::move(file)).first->second;
}

}  // namespace

Result<TemplateFile> TemplateStore::definition(std::string_view name) const {
  HUTCH_TRY(check_template_name(name));
  if (const auto path = paths_.user / (std::string(name) + ".toml"); !paths_.user.empty() && is_there(path)) {
    HUTCH_TRY(const auto text, read_text(path));
    return parse_template_file(name, text, path.string());
  }
  for (const auto& built_in : built_ins()) {
    if (built_in.name == name) return parse_built_in(name, built_in.text);
  }
  return unknown_name(name, names());
}

Result<TemplatePlan> TemplateStore::plan(std::string_view name) const {
  HUTCH_TRY(auto file, definition(name));
  const auto doing = fmt::format("template {}", name);
  auto interpreter = find_interpreter(file.interpreter);
  if (!interpreter) return std::move(interpreter).error().during(doing);
  HUTCH_TRY(const auto met, python_meets(interpreter->version, file.python));
  if (!met) {
    return make_error(ErrorCode::unsupported, fmt::format("{} needs Python {}, but {} is {}", doing, file.python,
                                                          interpreter->path.string(), to_string(interpreter->version)))
        .with_hint("Name another interpreter in the template's definition.");
  }
  TemplatePlan plan{.file = std::move(file), .interpreter = *std::move(interpreter)};
  plan.fingerprint = tree_fingerprint(plan.file, plan.interpreter);
  plan.tree = directory() / fmt::format("{}-{}", plan.file.name, plan.fingerprint);
  return plan;
}

Result<Template> TemplateStore::resolve(std::string_view name) const {
  HUTCH_TRY(auto plan, this->plan(name));
  Template ready{.name = plan.file.name,
                 .interpreter = plan.interpreter.path,
                 .binds = {},
                 .preload = plan.file.preload,
                 .environment = plan.file.environment,
                 .skeleton = {},
                 .fingerprint = {}};
  // /usr is in every root; an interpreter elsewhere brings its own installation.
  if (!plan.interpreter.beneath_usr()) ready.binds.push_back({plan.interpreter.prefix, plan.interpreter.prefix});
  std::string identity = plan.fingerprint;
  if (plan.needs_build()) {
    const auto manifest_path = plan.tree / "manifest.toml";
    if (!is_there(manifest_path)) {
      return make_error(ErrorCode::unsupported, fmt::format("the template {} is not built", name))
          .with_hint(fmt::format("run: hutch template build {}", name));
    }
    HUTCH_TRY(const auto text, read_text(manifest_path));
    HUTCH_TRY(const auto manifest, parse_manifest(text, manifest_path.string()));
    ready.interpreter = std::string(kEnvironmentInside) + "/bin/python";
    ready.binds.push_back({plan.tree / "env", std::string(kEnvironmentInside)});
    ready.binds.push_back({plan.tree / "skel", std::string(kSkeletonInside)});
    ready.skeleton = kSkeletonInside;
    for (const auto& variable : manifest.environment) {
      const auto same = [&](const auto& other) { return other.first == variable.first; };
      if (std::ranges::none_of(ready.environment, same)) ready.environment.push_back(variable);  // the definition wins
    }
    identity += text;  // has the time of the build
  }
  for (const auto& module : ready.preload) identity += "\npreload " + module;
  for (const auto& [key, value] : ready.environment) identity += fmt::format("\nenvironment {}={}", key, value);
  ready.fingerprint = sha256_hex(identity).substr(0, kFingerprintDigits);
  return ready;
}

Result<std::vector<Template>> TemplateStore::ready() const {
  std::vector<Template> all;
  for (const auto& name : names()) {
    if (auto one = resolve(name); one) all.push_back(*std::move(one));
  }
  if (all.empty()) {
    HUTCH_TRY(auto bare, resolve("bare"));  // says what the host lacks
    all.push_back(std::move(bare));
  }
  return all;
}

Result<TemplateChoice> TemplateStore::choose(std::string_view name) const {
  if (!name.empty()) {
    HUTCH_TRY(auto named, resolve(name));
    return TemplateChoice{.chosen = std::move(named), .notice = {}};
  }
  auto usual = resolve("default");
  if (usual) return TemplateChoice{.chosen = *std::move(usual), .notice = {}};
  HUTCH_TRY(auto bare, resolve("bare"));
  auto notice = fmt::format("{}: using bare, which has only the standard library", usual.error().message);
  if (!usual.error().hint.empty()) notice += fmt::format(" ({})", usual.error().hint);
  return TemplateChoice{.chosen = std::move(bare), .notice = std::move(notice)};
}

TemplateInfo TemplateStore::describe(const std::string& name) const {
  TemplateInfo info{.name = name};
  const auto fail = [&info](const Error& error) {
    info.state = TemplateState::error;
    info.error = error.message;
  };
  const auto file = definition(name);
  if (!file) {
    fail(file.error());
    return info;
  }
  info.description = file->description;
  info.origin = file->origin;
  info.needs_build = !file->packages.empty();
  info.packages = file->packages;
  info.preload = file->preload;
  info.environment = file->environment;
  info.interpreter = file->interpreter;
  const auto plan = this->plan(name);
  if (!plan) {
    fail(plan.error());
    return info;
  }
  info.interpreter = plan->interpreter.path;
  info.python = to_string(plan->interpreter.version);
  if (const auto ready = resolve(name); ready) {
    info.state = TemplateState::ready;
    info.environment = ready->environment;
    const auto text = info.needs_build ? read_text(plan->tree / "manifest.toml") : Result<std::string>("");
    if (const auto manifest = parse_manifest(text.value_or(""), "manifest.toml"); manifest) {
      info.path = plan->tree;
      info.size = manifest->size;
      info.built_at = manifest->built_at;
      info.cjk_font = manifest->cjk_font;
      info.installed = manifest->packages;
    }
  } else if (is_locked(lock_file(name))) {
    info.state = TemplateState::creating;
  } else if (const auto why = read_text(plan->tree.string() + ".error"); why) {
    fail(make_error(ErrorCode::system, *why));
  } else if (is_there(plan->tree)) {
    fail(ready.error());
  }
  return info;
}

std::vector<TemplateInfo> TemplateStore::list() const {
  std::vector<TemplateInfo> all;
  for (const auto& name : names()) all.push_back(describe(name));
  return all;
}

Result<TemplateInfo> TemplateStore::show(std::string_view name) const {
  HUTCH_TRY(check_template_name(name));
  const auto known = names();
  if (std::ranges::find(known, name) == known.end()) return unknown_name(name, known);
  return describe(std::string(name));
}

}  // namespace hutch
