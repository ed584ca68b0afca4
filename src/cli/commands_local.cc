// Commands about this machine: the engine, templates, benchmark, doctor, configuration.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "api/json_text.h"
#include "cli/bench_command.h"
#include "cli/commands.h"
#include "cli/doctor_command.h"
#include "cli/engine_command.h"
#include "cli/template_command.h"
#include "session/template_store.h"

namespace hutch {
namespace {

struct TemplateCommandLine {
  std::string name;
  bool force = false;
  bool json = false;
};

OutputFormat format_of(bool json) { return json ? OutputFormat::json : OutputFormat::text; }

int print_config(const Config& config, OutputFormat format) {
  boost::json::object all;
  for (const auto& entry : config.entries) {
    if (format == OutputFormat::json) {
      all[entry.key] = boost::json::object{{"value", entry.value}, {"origin", entry.origin}};
    } else {
      fmt::print("{:<22} {:<14} {}\n", entry.key, entry.value.empty() ? "-" : entry.value, entry.origin);
    }
  }
  if (format == OutputFormat::json) fmt::print("{}\n", json_text(all));
  return 0;
}

Result<TemplateStore> open_store() {
  HUTCH_TRY(const auto paths, TemplatePaths::from_environment());
  return TemplateStore::open(paths);
}

}  // namespace

Action define_engine(CLI::App& app, const Words&) {
  const auto json = std::make_shared<bool>(false);
  app.require_subcommand(1);
  auto* status = app.add_subcommand("status", "Is it running, and what has it done");
  status->add_flag("--json", *json);
  auto* stop = app.add_subcommand("stop", "Finish what is running, then leave");
  app.add_subcommand("serve")->group("");
  return [=](const Config& config) {
    if (*status) return engine_status(format_of(*json));
    return *stop ? engine_stop() : engine_serve(config);
  };
}

Action define_template(CLI::App& app, const Words&) {
  const auto typed = std::make_shared<TemplateCommandLine>();
  app.require_subcommand(1);
  auto* build = app.add_subcommand("build", "Download and install a template's packages");
  build->add_option("NAME", typed->name)->required();
  build->add_flag("--force", typed->force, "Build anew what is already built");
  auto* list = app.add_subcommand("list", "Every template and its state");
  auto* show = app.add_subcommand("show", "What is in a template");
  show->add_option("NAME", typed->name)->required();
  auto* rm = app.add_subcommand("rm", "Remove what was built");
  rm->add_option("NAME", typed->name)->required();
  for (auto* command : {build, list, show}) command->add_flag("--json", typed->json);
  return [=](const Config&) {
    const auto store = open_store();
    if (!store) return own_failure(store.error());
    const OutputFormat format = format_of(typed->json);
    if (*build)
      return template_build(*store, typed->name, typed->force ? Rebuild::always : Rebuild::if_missing, format);
    if (*list) return template_list(*store, format);
    return *show ? template_show(*store, typed->name, format) : template_rm(*store, typed->name);
  };
}

Action define_bench(CLI::App& app, const Words&) {
  const auto bench = std::make_shared<BenchOptions>(BenchOptions{.version = HUTCH_VERSION});
  app.add_flag("--quick", bench->quick, "About 20 seconds instead of about 75");
  app.add_option("--rounds", bench->rounds, "Exactly so many rounds, however long they take")
      ->check(CLI::Range(1, 10'000));
  auto* json = app.add_flag("--json", bench->json);
  app.add_flag("--markdown", bench->markdown, "The table of BENCHMARKS.md")->excludes(json);
  app.add_option("--save", bench->save, "Write the JSON to this FILE, too")->type_name("FILE");
  app.add_flag("--weaker-limits", bench->weaker_limits, "Where there are no control groups");
  return [bench](const Config&) { return bench_command(*bench); };
}

Action define_doctor(CLI::App& app, const Words&) {
  const auto doctor = std::make_shared<DoctorOptions>();
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json);
  app.add_flag("--verbose", doctor->verbose, "Say what each item is for, also where all is well");
  auto* delegate = app.add_option("--delegate", doctor->delegate, "As root: give a USER or uid a control group");
  app.add_option("--undelegate", doctor->undelegate, "As root: take it away again")->excludes(delegate);
  return [doctor, json](const Config&) {
    doctor->format = format_of(*json);
    return doctor_command(*doctor);
  };
}

Action define_config(CLI::App& app, const Words&) {
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json);
  return [json](const Config& config) { return print_config(config, format_of(*json)); };
}

}  // namespace hutch
