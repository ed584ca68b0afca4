// What every process that holds an engine does first: find the templates, and tell keeper and engine how to behave.
#pragma once

#include <string>
#include <vector>

#include "api/engine_server.h"
#include "session/engine.h"
#include "zygote/keeper.h"

namespace hutch {

// The templates with everything the keeper needs to know, the runner included; all that are ready, or `only` one.
Result<std::vector<Template>> load_templates(const std::string& only);
// Changes when a template was built, changed or removed.
std::string templates_stamp();
// For one run there is something to prepare at once, and no time to clean up after others.
KeeperOptions keeper_options(const std::vector<Template>& templates, bool one_run);
// How cells run in it if nobody says otherwise: as in IPython where it is loaded in advance.
wire::RunMode usual_mode(const Template& one);
EngineOptions engine_options(const EngineSettings& settings, std::vector<Template> templates);

}  // namespace hutch
