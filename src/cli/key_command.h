// `hutch key`: who may use the daemon. Works on its database, whether or not it runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/report.h"
#include "cli/template_command.h"
#include "session/key_store.h"

namespace hutch {

struct KeyOptions {
  std::filesystem::path data;
  std::string name;  // of a new key, or the id of an old one
  std::vector<std::string> scopes;
  KeyLimits limits;
  OutputFormat format = OutputFormat::text;
};

int key_create(const KeyOptions& options);
int key_list(const KeyOptions& options);
int key_revoke(const KeyOptions& options);
int key_rotate(const KeyOptions& options);

}  // namespace hutch
