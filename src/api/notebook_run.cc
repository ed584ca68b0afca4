#include "api/notebook_run.h"

#include <boost/json.hpp>

#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::string_view kSkip = "skip-execution";  // as nbclient has them
constexpr std::string_view kMayFail = "raises-exception";

}  // namespace

Result<void> check_language(const Notebook& notebook) {
  const std::string language = notebook.language();
  if (language == "python") return {};
  return make_error(ErrorCode::invalid_argument, "the notebook is for " + printable(language.substr(0, 40)))
      .with_hint("only notebooks for Python can be run");
}

NotebookRun::NotebookRun(Notebook notebook, NotebookOptions options)
    : notebook_(std::move(notebook)), options_(std::move(options)) {
  for (std::size_t i = 0; i < notebook_.size(); ++i) {
    if (!notebook_.is_code(i) || notebook_.has_tag(i, kSkip)) continue;
    notebook_.set_outputs(i, {}, 0);
    if (is_to_run(i)) ++cells_to_run_;
  }
}

bool NotebookRun::is_to_run(std::size_t cell) const {
  return notebook_.is_code(cell) && !notebook_.has_tag(cell, kSkip) &&
         notebook_.source(cell).find_first_not_of(" \t\r\n\f\v") != std::string::npos;
}

std::optional<std::string> NotebookRun::next() {
  if (stopped_) return std::nullopt;
  while (next_ < notebook_.size() && !is_to_run(next_)) ++next_;
  if (next_ == notebook_.size()) return std::nullopt;
  at_ = next_++;
  running_ = true;
  told_left_out_ = false;
  outputs_.begin(at_);
  return notebook_.source(at_);
}

void NotebookRun::add(const wire::OutputEvent& event) {
  output_bytes_ += size_of(event);
  if (!options_.most_outputs || output_bytes_ <= *options_.most_outputs) return outputs_.add(event);
  if (!std::exchange(told_left_out_, true)) outputs_.add(left_out());
}

void NotebookRun::finish(wire::Record record, AfterCell after) {
  running_ = false;
  ++cells_run_;
  if (after == AfterCell::interpreter_gone && !record.error) {
    record.error = wire::RunError{.category = "system_exit", .code = "exit", .message = "The cell ended Python."};
  }
  auto error = outputs_.end(record);
  if (after == AfterCell::interpreter_gone) stopped_ = true;
  if (!error) return;
  const bool may_fail = notebook_.has_tag(at_, kMayFail) && after == AfterCell::interpreter_lives;
  if (may_fail) return;
  ++cells_failed_;
  if (!options_.allow_errors) stopped_ = true;
  if (!failure_ || stopped_) failure_ = NotebookFailure{.cell = at_, .error = std::move(*error)};
}

boost::json::object NotebookRun::summary() const {
  json::object result{{"status", succeeded() ? "ok" : "error"},
                      {"cells", cells_to_run_},
                      {"cells_run", cells_run_},
                      {"cells_failed", cells_failed_},
                      {"error", nullptr}};
  if (!failure_) return result;
  const auto& [cell, error] = *failure_;
  json::array traceback;
  for (const auto& line : error.traceback) traceback.emplace_back(line);
  result["error"] = json::object{{"cell", cell + 1},
                                 {"cell_id", notebook_.cell(cell).at("id")},
                                 {"ename", error.name},
                                 {"evalue", error.value},
                                 {"traceback", std::move(traceback)}};
  return result;
}

}  // namespace hutch
