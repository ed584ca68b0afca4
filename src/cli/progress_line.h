// One line on standard error that is drawn again as work goes on; nothing where that is not a terminal.
#pragma once

#include <string>
#include <string_view>

namespace hutch {

class ProgressLine {
 public:
  enum class Where : bool { nowhere, terminal };
  explicit ProgressLine(Where where);
  // "[#####     ]  3/10 cell 4: …", the text cut to the width of the terminal; of foreign text the first line.
  void show(std::size_t done, std::size_t of, std::string_view text) const;
  void clear() const;

 private:
  bool draws_;
};

// What is drawn, for a terminal of this width.
std::string progress_text(std::size_t done, std::size_t of, std::string_view text, std::size_t width);

}  // namespace hutch
