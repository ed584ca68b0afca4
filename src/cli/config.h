// The configuration: a TOML file, then HUTCH_* variables; flags come last, in main(). Unknown keys are errors.
#pragma once

#include <string>
#include <vector>

#include "api/serve_settings.h"
#include "base/result.h"
#include "sandbox/limits.h"

namespace hutch {

struct ConfigEntry {
  std::string key;     // "limits.memory"
  std::string value;   // as a person would write it
  std::string origin;  // "default", the file's path, or the variable's name
};

struct Config {
  Limits limits;
  EngineSettings engine;
  ServeSettings serve;
  std::string template_name;  // empty: default, or bare when default is not built
  std::vector<ConfigEntry> entries;

  // $HUTCH_CONFIG, or $XDG_CONFIG_HOME/hutch/config.toml when it is there.
  static Result<Config> load();
};

}  // namespace hutch
