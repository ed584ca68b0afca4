// What cells wrote and showed, as the outputs of a notebook: by Jupyter's rules for streams, displays that change later
// and outputs that are cleared.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/body_budget.h"
#include "api/notebook.h"
#include "wire/record.h"

namespace hutch {

// What stopped a cell, in Jupyter's words.
struct CellError {
  std::string name;
  std::string value;
  std::vector<std::string> traceback;  // lines
};

// Where in a text that ends with it the traceback of this error begins, with the errors that led to it.
std::optional<std::size_t> find_traceback(std::string_view text, const wire::PythonError& python);

// Of the events that go into one notebook where the daemon makes it.
inline constexpr std::size_t kMostNotebookEvents = 64U << 20;
std::size_t size_of(const wire::OutputEvent& event);
// Stands for what would be too much.
wire::OutputEvent left_out();
// What all cells of a notebook may leave in it, in bytes of memory. Every copy that an update makes counts. Of our own
// words and of the beginnings of errors, which stand where nothing else fits, each cell has only a few.
inline constexpr std::size_t kMostNotebookOutputs = 256U << 20;

enum class HutchData : bool { leave_out, keep };  // representations that only Hutch knows

class NotebookOutputs {
 public:
  // `share`: of what several notebooks may take together; null: each has its room.
  NotebookOutputs(Notebook& notebook, HutchData data, std::shared_ptr<BodyBudget::Share> share = nullptr)
      : notebook_(notebook), data_(data), share_(std::move(share)) {}

  // One cell after the other; a cell that begins forgets what it showed before.
  void begin(std::size_t cell);
  void add(const wire::OutputEvent& event);
  // What Python wrote about the error moves from its standard error into an output of its own.
  std::optional<CellError> end(const wire::Record& record);
  [[nodiscard]] std::size_t taken() const { return kMostNotebookOutputs - room_; }  // of its room

 private:
  struct Output {
    std::string stream;          // "stdout", "stderr", or nothing
    std::string text;            // of a stream
    boost::json::object object;  // of everything else
    std::string display_id;
  };

  bool take(std::size_t bytes);
  void clear_if_due();
  void add_text(wire::Stream stream, std::string_view bytes);
  void append(wire::Stream stream, std::string_view text);
  void add_display(const wire::Display& display);
  std::vector<boost::json::object*> shown_as(const std::string& display_id);
  std::vector<std::string> take_traceback(const wire::PythonError& python);
  CellError describe(const wire::RunError& error, std::int32_t exit_code);

  Notebook& notebook_;
  HutchData data_;
  std::shared_ptr<BodyBudget::Share> share_;
  std::size_t cell_ = 0;
  std::size_t room_ = kMostNotebookOutputs;
  bool left_out_ = false;  // something of this cell
  bool clear_first_ = false;
  std::string carried_[2];  // the beginning of a character, by stream
  std::vector<Output> outputs_;
  std::map<std::string, std::set<std::size_t>, std::less<>> shown_in_;  // cells, by display
  std::map<std::size_t, std::vector<std::string>> ids_;                 // of the outputs of cells that showed such
};

}  // namespace hutch
