// An .ipynb file from anywhere: what is read can be written, read again to the same, and shown as a page.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/notebook.h"
#include "api/notebook_html.h"
#include "api/notebook_run.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hutch;
  const auto notebook = Notebook::read({reinterpret_cast<const char*>(data), size});
  if (!notebook) return 0;
  const std::string text = notebook->text();
  const auto again = Notebook::read(text);
  if (!again || again->text() != text) std::abort();
  if (notebook_html(*again).find("<script") != std::string::npos) std::abort();
  NotebookRun run(*again, {.allow_errors = true});
  while (run.next()) run.finish({}, AfterCell::interpreter_lives);
  if (!run.complete()) std::abort();
  return 0;
}
