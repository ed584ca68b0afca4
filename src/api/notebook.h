// A Jupyter notebook (nbformat 4): read strictly, changed only where something ran, written as 4.5. Everything else in
// it, known to us or not, stays what it was; whole numbers beyond 64 bits lose digits, as they do in Jupyter's pages.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hutch {

inline constexpr std::size_t kMostNotebookBytes = 32U << 20;
inline constexpr std::size_t kMostNotebookDepth = 64;
inline constexpr std::size_t kMostCells = 10'000;

// A cell to be made.
struct CodeCell {
  std::string source;
  std::string tag;  // or nothing
  std::string id;   // nothing: a new one
};

class Notebook {
 public:
  static Result<Notebook> read(std::string_view text);  // what is in an .ipynb file
  static Result<Notebook> from_document(boost::json::object document);
  static Notebook make();  // for Python, without cells

  [[nodiscard]] std::size_t size() const { return cells().size(); }
  [[nodiscard]] bool is_code(std::size_t index) const { return type(index) == "code"; }
  [[nodiscard]] std::string_view type(std::size_t index) const;  // code, markdown or raw
  [[nodiscard]] std::string source(std::size_t index) const;
  [[nodiscard]] bool has_tag(std::size_t index, std::string_view tag) const;
  [[nodiscard]] std::string language() const;  // in lower case; python when it does not say
  [[nodiscard]] std::string title() const;     // of its metadata, or nothing
  [[nodiscard]] const boost::json::object& cell(std::size_t index) const { return cells()[index].get_object(); }
  [[nodiscard]] const boost::json::object& document() const { return document_; }
  boost::json::object take_document() && { return std::move(document_); }

  void insert(std::size_t index, const CodeCell& made);
  void erase(std::size_t index) { cells().erase(cells().begin() + static_cast<std::ptrdiff_t>(index)); }
  void set_outputs(std::size_t index, boost::json::array outputs, std::uint32_t execution_count);  // 0: none
  boost::json::array& outputs(std::size_t index) { return cells()[index].get_object()["outputs"].get_array(); }

  [[nodiscard]] std::string text() const;  // for a file

 private:
  explicit Notebook(boost::json::object document) : document_(std::move(document)) {}
  [[nodiscard]] const boost::json::array& cells() const { return document_.find("cells")->value().get_array(); }
  boost::json::array& cells() { return document_.find("cells")->value().get_array(); }
  void complete_ids();

  boost::json::object document_;  // checked: cells, and of each its type, source and metadata
};

}  // namespace hutch
