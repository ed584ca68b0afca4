// `hutch template build|list|show|rm`. Results go to standard output, progress and errors to standard error; colours
// and a line that rewrites itself only where standard error is a terminal. Each returns the exit code.
#pragma once

#include <string>

#include "session/template_store.h"

namespace hutch {

enum class OutputFormat {
  text,
  json,
};

enum class Rebuild {
  if_missing,
  always,
};

int template_build(const TemplateStore& store, const std::string& name, Rebuild rebuild, OutputFormat format);
int template_list(const TemplateStore& store, OutputFormat format);
int template_show(const TemplateStore& store, const std::string& name, OutputFormat format);
int template_rm(const TemplateStore& store, const std::string& name);

}  // namespace hutch
