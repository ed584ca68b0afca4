// Builds and removes the trees of templates. A build works in a directory of its own and appears under its final name
// in one step, so that nobody ever sees half a tree; a lock keeps two builds of one template apart.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/template_store.h"

namespace hutch {

struct BuildProgress {
  enum class Kind {
    step,    // a part of the build begins: `step` of `steps`
    detail,  // what an installer says meanwhile
    notice,  // what the user should know when the build is over
  };
  Kind kind = Kind::step;
  int step = 0;
  int steps = 0;
  std::string text;  // may hold bytes of foreign programs
};

struct BuildOptions {
  std::function<void(const BuildProgress&)> progress;
  std::vector<std::string> environment;  // of the caller: current_environment()
  bool force = false;                    // build anew what is already built
  std::vector<std::string> font_directories = {"/usr/share/fonts", "/usr/local/share/fonts"};  // of the host
};

// disconnected: the package index was not reached. already_exists: another process builds it right now.
Result<void> build_template(const TemplateStore& store, std::string_view name, const BuildOptions& options);

// Every tree of that name, also of older definitions, and what failed builds left.
Result<void> remove_template(const TemplateStore& store, std::string_view name);

}  // namespace hutch
