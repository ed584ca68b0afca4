// What the text editor tool does to a text, without the file: replace, insert, undo. What a model is told of it is in
// text_view.h. The sentences are the ones that models were trained on where there are such. Pure functions over bytes
// from a sandbox (the content) and from a model (the rest); whoever calls them reads and writes the file.
//
// A line ends at '\n' and nowhere else, as for `cat -n`: "a\nb" and "a\nb\n" have two lines, "" has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace hutch {

inline constexpr Bytes kMostEditable = 1_MiB;

enum class EditProblem : std::uint8_t {
  file_not_found,
  not_a_file,
  is_directory,
  invalid_path,
  no_match,
  multiple_matches,
  bad_arguments,
  permission_denied,
  too_large,
  not_text,
};
std::string_view name(EditProblem problem);

struct EditRefusal {
  EditProblem code = EditProblem::bad_arguments;
  std::string text;  // for the model: what is wrong and what to do instead
};
template <class T>
using Edited = std::expected<T, EditRefusal>;

// The sentence for a problem with the file itself; no_match and the like have theirs from the functions below.
EditRefusal refuse_path(EditProblem problem, std::string_view path);
// Small enough, and UTF-8. Every function below asks this of what it is given and of what it makes.
Edited<void> check_editable(std::string_view content);

// As in `diff -U0`: a start with no lines is the line before.
struct EditDiff {
  std::size_t old_start = 0;
  std::size_t old_lines = 0;
  std::size_t new_start = 0;
  std::size_t new_lines = 0;
  std::vector<std::string> lines;  // "-a", "+b"; empty when nothing changed
};

struct Replacement {
  std::string content;
  std::size_t first_line = 1;  // where the match began
  std::size_t old_lines = 0;   // that the match touched
  std::size_t new_lines = 0;   // that the new text touches
  bool changed = true;         // false: old and new text are the same
  EditDiff diff;
};
// The one occurrence of `old_text` becomes `new_text`. Where every line of the content ends in CRLF, a bare '\n' in
// either means CRLF: a model does not see the difference, and no other reading could match.
Edited<Replacement> replace_text(std::string_view content, std::string_view old_text, std::string_view new_text);

struct Insertion {
  std::string content;
  std::size_t first_line = 1;  // of what was inserted
  std::size_t lines = 0;
};
// Puts `text` after line `line`; 0 is the top. What is inserted are whole lines: an end of line is added to a last line
// of the content that has none, and to the text if it has none. Only a file without an end of line at its end stays so
// when the text goes there. Ends of lines are CRLF where all those of the content are.
Edited<Insertion> insert_text(std::string_view content, std::int64_t line, std::string_view text);

// What files were before the last edits of a session: 16 versions a path and 4 MiB in all; the oldest go first.
class EditHistory {
 public:
  // nullopt: there was no such file, so that undoing the edit removes it.
  void remember(std::string_view path, std::optional<std::string> before);
  // Takes the version out. Whoever then cannot write it remembers it again.
  Edited<std::optional<std::string>> undo(std::string_view path);

 private:
  struct Version {
    std::string path;
    std::optional<std::string> before;
  };
  static std::size_t cost(const Version& version);
  void forget(std::deque<Version>::iterator version);

  std::deque<Version> versions_;  // oldest first
  std::size_t cost_ = 0;
};

}  // namespace hutch
