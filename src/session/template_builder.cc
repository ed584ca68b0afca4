#include "session/template_builder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "session/template_installer.h"
#include "session/template_tree.h"

namespace hutch {

namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 6;
constexpr int kNoFont = 3;  // exit code of template_finish.py
constexpr auto kStepTimeout = std::chrono::minutes{20};
constexpr std::string_view kFontPackage = "mplfonts";  // carries Noto Sans CJK under the SIL Open Font License
constexpr std::string_view kFontInPackage = "mplfonts/fonts/NotoSansCJKsc-Regular.otf";

constexpr unsigned char kFinish[] = {
#embed "template_finish.py"
};

std::string now_text() {
  const auto now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), length};
}

Result<void> write_text(const fs::path& path, std::string_view text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) return system_error(errno).during("write " + path.string());
  return {};
}

Result<void> make_directories(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return system_error(failed.value()).during("create " + path.string());
  return {};
}

// An open-file-description lock: list() can ask about it without taking it, and it goes with the process.
Result<UniqueFd> lock(const TemplateStore& store, std::string_view name) {
  HUTCH_TRY(make_directories(store.directory()));
  const auto path = store.lock_file(name);
  UniqueFd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)};
  if (!fd) return system_error(errno).during("open " + path.string());
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_OFD_SETLK, &whole) == 0) return fd;
  if (errno != EAGAIN && errno != EACCES) return system_error(errno).during("lock " + path.string());
  return make_error(ErrorCode::already_exists, fmt::format("the template {} is being built by another process", name))
      .with_hint("Wait until it is done: hutch template list shows it.");
}

// One build: its parts in the order in which they happen.
class Build {
 public:
  Build(const TemplateStore& store, const TemplatePlan& plan, const BuildOptions& options, fs::path partial)
      : store_(store), plan_(plan), options_(options), partial_(std::move(partial)) {}

  Result<void> run() {
    say(1, "looking for an installer (uv or pip)");
    HUTCH_TRY(make_directories(partial_ / "skel"));
    HUTCH_TRY(make_directories(store_.paths().data / "tools"));
    HUTCH_TRY(const auto installer,
              Installer::find(plan_.interpreter, store_.paths().data / "tools", options_.environment, details()));
    say(2, fmt::format("creating an environment with Python {}", to_string(plan_.interpreter.version)));
    HUTCH_TRY(create_environment());
    say(3, fmt::format("downloading and installing packages with {}", installer.name()));
    HUTCH_TRY(installer.install(python(), plan_.file.packages, details()));
    HUTCH_TRY(manifest_.packages, installer.installed(python()));
    say(4, "compiling");
    HUTCH_TRY(compile());
    say(5, "preparing fonts");
    HUTCH_TRY(prepare_fonts(installer));
    say(6, "checking");
    HUTCH_TRY(check());
    return finish();
  }

 private:
  [[nodiscard]] fs::path environment() const { return partial_ / "env"; }
  [[nodiscard]] fs::path python() const { return environment() / "bin" / "python"; }

  void say(int step, std::string text) { tell(BuildProgress::Kind::step, step, std::move(text)); }
  void notice(std::string text) { tell(BuildProgress::Kind::notice, step_, std::move(text)); }
  void tell(BuildProgress::Kind kind, int step, std::string text) {
    step_ = step;
    if (options_.progress) options_.progress({.kind = kind, .step = step, .steps = kSteps, .text = std::move(text)});
  }
  Lines details() {
    return [this](std::string_view line) { tell(BuildProgress::Kind::detail, step_, std::string(line)); };
  }

  // Without pip: nobody installs into a tree once it is built.
  Result<void> create_environment() {
    auto done = run_checked(
        {.argv = {plan_.interpreter.path.string(), "-I", "-m", "venv", "--without-pip", environment().string()},
         .environment = installer_environment(options_.environment, {}),
         .timeout = kStepTimeout});
    if (done) return {};
    return std::move(done).error().with_hint("Install Debian's python3-venv, or the venv module of this interpreter.");
  }

  // The tree is read-only inside and its files keep their content, so the compiled files need no check against the
  // sources; they name the sources by where the sandbox shows them. Sources that do not compile are tests of packages
  // for other Pythons: the exit code says nothing.
  Result<void> compile() {
    HUTCH_TRY(run_command({.argv = {plan_.interpreter.path.string(), "-I", "-m", "compileall", "-q", "-j", "0",
                                    "--invalidation-mode", "unchecked-hash", "-s", environment().string(), "-p",
                                    std::string(TemplateStore::kEnvironmentInside), (environment() / "lib").string()},
                           .environment = installer_environment(options_.environment, {}),
                           .timeout = kStepTimeout}));
    return {};
  }

  Result<void> prepare_fonts(const Installer& installer) {
    if (!has_package("matplotlib")) return {};
    const auto bundled = environment() / "share" / "fonts";
    std::vector<std::string> words = {"fonts", environment().string()};
    words.insert(words.end(), options_.font_directories.begin(), options_.font_directories.end());
    words.push_back(bundled.string());
    HUTCH_TRY(auto done, finish_script(words));
    if (done.exit_code == kNoFont) {
      notice("no font of this host covers CJK (Debian: fonts-noto-cjk): taking Noto Sans CJK from the package index");
      if (auto taken = take_font(installer, bundled); !taken) {
        notice("charts will lack Chinese, Japanese and Korean text: " + taken.error().message);
      }
      HUTCH_TRY(done, finish_script(words));
    }
    if (done.exit_code != 0 && done.exit_code != kNoFont) {
      return make_error(ErrorCode::system, "matplotlib's fonts: " + done.errors);
    }
    manifest_.cjk_font = done.output.substr(0, done.output.find('\n'));
    manifest_.environment.emplace_back("MATPLOTLIBRC", inside("etc/matplotlibrc"));
    return {};
  }

  // One font of the package, not the package: the others are not needed, and not all of them are free.
  Result<void> take_font(const Installer& installer, const fs::path& bundled) {
    const auto unpacked = partial_ / "fonts";
    HUTCH_TRY(installer.unpack(python(), kFontPackage, unpacked, details()));
    HUTCH_TRY(make_directories(bundled));
    const auto font = unpacked / kFontInPackage;
    std::error_code failed;
    fs::copy_file(font, bundled / font.filename(), failed);
    if (failed) return system_error(failed.value()).during("copy " + font.string());
    fs::remove_all(unpacked, failed);
    return write_text(bundled / "README", "Noto Sans CJK SC: SIL Open Font License 1.1, https://openfontlicense.org\n");
  }

  Result<void> check() {
    if (!manifest_.cjk_font.empty()) HUTCH_TRY(expect_success({"draw"}, "drawing CJK text"));
    std::vector<std::string> words = {"preload"};
    words.insert(words.end(), plan_.file.preload.begin(), plan_.file.preload.end());
    if (auto loaded = expect_success(words, "preload"); !loaded) {
      return std::move(loaded).error().with_hint(
          "Preload modules of the listed packages; against threads set OPENBLAS_NUM_THREADS, OMP_NUM_THREADS and the "
          "like to \"1\" in [environment].");
    }
    if (!has_package("matplotlib")) return {};
    return expect_success({"settle", environment().string(), std::string(TemplateStore::kEnvironmentInside)}, "fonts");
  }

  Result<void> finish() {
    HUTCH_TRY(show_scripts_inside(environment(), TemplateStore::kEnvironmentInside));
    HUTCH_TRY(manifest_.size, open_to_readers(partial_));
    manifest_.fingerprint = plan_.fingerprint;
    manifest_.built_at = now_text();
    manifest_.environment.emplace_back("PATH", inside("bin") + ":/usr/local/bin:/usr/bin:/bin");
    const auto manifest = partial_ / "manifest.toml";
    HUTCH_TRY(write_text(manifest, format_manifest(manifest_)));
    HUTCH_TRY(open_to_readers(partial_));  // once more: the size had to be known before the manifest
    return {};
  }

  [[nodiscard]] bool has_package(std::string_view name) const {
    const auto start = std::string(name) + "==";
    return std::ranges::any_of(manifest_.packages, [&](const auto& package) { return package.starts_with(start); });
  }

  static std::string inside(std::string_view path) {
    return fmt::format("{}/{}", TemplateStore::kEnvironmentInside, path);
  }

  Result<void> expect_success(const std::vector<std::string>& words, std::string_view doing) {
    HUTCH_TRY(const auto done, finish_script(words));
    if (done.exit_code == 0) return {};
    auto errors = done.errors;
    while (errors.ends_with('\n')) errors.pop_back();
    return make_error(ErrorCode::system, fmt::format("{}: {}", doing, errors));
  }

  // With the template's own environment and the skeleton as home, as in the sandbox, and nothing of the caller.
  Result<Completed> finish_script(const std::vector<std::string>& words) {
    std::vector<std::string> variables = {"HOME=" + (partial_ / "skel").string(), "PATH=/usr/local/bin:/usr/bin:/bin",
                                          "LC_ALL=C.UTF-8"};
    for (const auto& [name, value] : plan_.file.environment) variables.push_back(name + "=" + value);
    const auto settings = environment() / "etc" / "matplotlibrc";
    if (std::error_code failed; fs::exists(settings, failed)) variables.push_back("MATPLOTLIBRC=" + settings.string());
    // -B: what a check compiles would name the wrong place.
    Command command{.argv = {python().string(), "-I", "-B", "-c",
                             std::string(reinterpret_cast<const char*>(kFinish), sizeof kFinish)},
                    .environment = std::move(variables),
                    .directory = partial_,
                    .timeout = kStepTimeout};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    return run_command(command);
  }

  const TemplateStore& store_;
  const TemplatePlan& plan_;
  const BuildOptions& options_;
  fs::path partial_;
  TemplateManifest manifest_;
  int step_ = 0;
};

// In one step, also when there is an older tree of the same name: that one is removed afterwards.
Result<void> publish(const fs::path& partial, const fs::path& tree) {
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, tree.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno != EEXIST || ::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, tree.c_str(), RENAME_EXCHANGE) != 0) {
    return system_error(errno).during("rename " + partial.string());
  }
  return remove_tree(partial);
}

}  // namespace

Result<void> build_template(const TemplateStore& store, std::string_view name, const BuildOptions& options) {
  HUTCH_TRY(const auto plan, store.plan(name));
  const auto tell = [&options](std::string text) {
    if (options.progress) options.progress({.kind = BuildProgress::Kind::notice, .text = std::move(text)});
  };
  if (!plan.needs_build()) {
    tell(fmt::format("the template {} has no packages: there is nothing to build", name));
    return {};
  }
  HUTCH_TRY(const auto held, lock(store, name));
  if (!options.force && store.resolve(name)) {
    tell(fmt::format("the template {} is already built", name));
    return {};
  }
  for (const auto& leftover : tree_entries(store.directory(), name)) {
    if (leftover.kind == TreeEntry::Kind::partial) HUTCH_TRY(remove_tree(leftover.path));
  }
  const fs::path failure = plan.tree.string() + ".error";
  std::error_code ignored;
  fs::remove(failure, ignored);
  const fs::path partial = fmt::format("{}.partial-{}", plan.tree.string(), ::getpid());
  auto built = Build(store, plan, options, partial).run();
  if (built) built = publish(partial, plan.tree);
  if (built) return {};
  if (const auto noted = write_text(failure, built.error().message); !noted) tell(noted.error().message);
  if (const auto removed = remove_tree(partial); !removed) tell(removed.error().message);
  return std::move(built).error().during(fmt::format("build template {}", name));
}

Result<void> remove_template(const TemplateStore& store, std::string_view name) {
  HUTCH_TRY(check_template_name(name));
  const auto entries = tree_entries(store.directory(), name);
  if (entries.empty()) {
    HUTCH_TRY(store.show(name));  // says when there is no such template
    return make_error(ErrorCode::not_found,
                      fmt::format("the template {} has no built tree: there is nothing to remove", name));
  }
  HUTCH_TRY(const auto held, lock(store, name));
  for (const auto& entry : entries) {
    auto doomed = entry.path;
    if (entry.kind == TreeEntry::Kind::tree) {
      // Gone for readers in one step; if we are killed, the next build sweeps it up.
      doomed += fmt::format(".partial-{}", ::getpid());
      if (::rename(entry.path.c_str(), doomed.c_str()) != 0) {
        return system_error(errno).during("rename " + entry.path.string());
      }
    }
    HUTCH_TRY(remove_tree(doomed));
  }
  return {};
}

}  // namespace hutch
