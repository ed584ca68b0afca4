// Templates on this host: definitions (built into the program, or the user's own, which win) and built trees. The disk
// is the only state; a store holds paths, so that every call sees what other processes have done.
//
//   <data>/templates/NAME-FINGERPRINT/        a built tree: env/ skel/ manifest.toml
//   <data>/templates/NAME-FINGERPRINT.error   why the last build failed
//   <data>/templates/NAME-FINGERPRINT.partial-PID/  a build that runs, or was killed
//   <data>/templates/NAME.lock                held by the build that runs
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "session/template_file.h"
#include "session/template_interpreter.h"
#include "zygote/template.h"

namespace hutch {

struct TemplatePaths {
  std::filesystem::path data;  // built trees go to data/templates, the installer to data/tools
  std::filesystem::path user;  // definitions of the user: *.toml

  // $HUTCH_DATA_DIR, $XDG_DATA_HOME/hutch or ~/.local/share/hutch; $XDG_CONFIG_HOME/hutch/templates.
  static Result<TemplatePaths> from_environment();
};

enum class TemplateState {
  not_built,
  creating,
  ready,
  error,
};

std::string_view to_string(TemplateState state);

struct TemplateInfo {
  std::string name;
  std::string description;
  std::string origin;  // the definition's path, or "built-in"
  TemplateState state = TemplateState::not_built;
  bool needs_build = false;    // false: it runs as it is
  std::string error;           // why it cannot run, when state is error
  std::string interpreter;     // on the host
  std::string python;          // "3.11"
  std::filesystem::path path;  // of the tree, when it has been built
  Bytes size;
  std::string built_at;
  std::string cjk_font;
  std::vector<std::string> packages;   // as asked for
  std::vector<std::string> installed;  // with versions, when it has been built
  std::vector<std::string> preload;
  Variables environment;
};

// What to run when nobody named a template, and what to tell the user about it.
struct TemplateChoice {
  Template chosen;
  std::string notice;  // empty when there is nothing to say
};

// A definition, its interpreter and where its tree is or would be.
struct TemplatePlan {
  TemplateFile file;
  Interpreter interpreter;
  std::string fingerprint;     // of what a build depends on
  std::filesystem::path tree;  // <data>/templates/NAME-FINGERPRINT
  [[nodiscard]] bool needs_build() const { return !file.packages.empty(); }
};

class TemplateStore {
 public:
  // Where a tree appears inside the sandbox.
  static constexpr std::string_view kEnvironmentInside = "/opt/hutch/env";
  static constexpr std::string_view kSkeletonInside = "/opt/hutch/skel";

  static Result<TemplateStore> open(TemplatePaths paths);

  // Every template, sorted by name; one that cannot be read is there with its error.
  std::vector<TemplateInfo> list() const;
  Result<TemplateInfo> show(std::string_view name) const;

  // Ready to run. not_found names the known templates; unsupported says that it has to be built.
  Result<Template> resolve(std::string_view name) const;
  // Every template that can run now.
  Result<std::vector<Template>> ready() const;
  // The named one; with an empty name `default`, or `bare` and a notice when `default` is not built.
  Result<TemplateChoice> choose(std::string_view name) const;

  // For the builder.
  Result<TemplatePlan> plan(std::string_view name) const;
  std::filesystem::path directory() const { return paths_.data / "templates"; }
  std::filesystem::path lock_file(std::string_view name) const;
  const TemplatePaths& paths() const { return paths_; }

 private:
  explicit TemplateStore(TemplatePaths paths) : paths_(std::move(paths)) {}

  std::vector<std::string> names() const;
  Result<TemplateFile> definition(std::string_view name) const;
  TemplateInfo describe(const std::string& name) const;

  TemplatePaths paths_;
};

// Over what a tree is made from: packages, interpreter, layout. Preload and environment can change without a build.
std::string tree_fingerprint(const TemplateFile& file, const Interpreter& interpreter);

}  // namespace hutch
