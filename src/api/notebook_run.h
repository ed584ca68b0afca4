// A notebook that is being run, whoever runs its cells: which one is next, what became of it, and when to stop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/notebook.h"
#include "api/notebook_outputs.h"
#include "wire/record.h"

namespace hutch {

// Only notebooks for Python can be run.
Result<void> check_language(const Notebook& notebook);

struct NotebookOptions {
  bool allow_errors = false;  // go on after a cell that failed
  HutchData data = HutchData::leave_out;
  std::optional<std::size_t> most_outputs;   // of all cells together; what is more is left out, and told
  std::shared_ptr<BodyBudget::Share> share;  // of what notebooks may take together, if that is limited
};

// The cell at which a run ended, or the first that failed where errors are allowed.
struct NotebookFailure {
  std::size_t cell = 0;
  CellError error;
};

enum class AfterCell : bool { interpreter_gone, interpreter_lives };

class NotebookRun {
 public:
  // Forgets the outputs of every cell that will run.
  NotebookRun(Notebook notebook, NotebookOptions options);
  NotebookRun(NotebookRun&&) = delete;
  NotebookRun& operator=(NotebookRun&&) = delete;

  // The source of the next cell to run; nothing when there is none, or the run has stopped.
  std::optional<std::string> next();
  void add(const wire::OutputEvent& event);
  void finish(wire::Record record, AfterCell after);
  void stop() { stopped_ = true; }

  [[nodiscard]] bool cell_runs() const { return running_; }
  [[nodiscard]] std::size_t cell() const { return at_; }  // the one that next() gave last, by its place
  [[nodiscard]] std::size_t cells_run() const { return cells_run_; }
  [[nodiscard]] std::size_t cells_to_run() const { return cells_to_run_; }
  [[nodiscard]] std::size_t cells_failed() const { return cells_failed_; }
  [[nodiscard]] const std::optional<NotebookFailure>& failure() const { return failure_; }
  [[nodiscard]] bool complete() const { return cells_run_ == cells_to_run_; }
  [[nodiscard]] bool succeeded() const { return complete() && (options_.allow_errors || !failure_); }
  [[nodiscard]] boost::json::object summary() const;  // status, counts and error
  [[nodiscard]] const Notebook& notebook() const { return notebook_; }
  Notebook take_notebook() && { return std::move(notebook_); }

 private:
  [[nodiscard]] bool is_to_run(std::size_t cell) const;

  Notebook notebook_;
  NotebookOptions options_;
  NotebookOutputs outputs_{notebook_, options_.data, options_.share};
  std::size_t next_ = 0;
  std::size_t at_ = 0;
  std::size_t cells_run_ = 0, cells_to_run_ = 0, cells_failed_ = 0;
  std::size_t output_bytes_ = 0;
  bool told_left_out_ = false;  // in this cell
  bool running_ = false;
  bool stopped_ = false;
  std::optional<NotebookFailure> failure_;
};

}  // namespace hutch
