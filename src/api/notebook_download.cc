#include "api/notebook_download.h"

#include <ranges>

#include "api/notebook_outputs.h"
#include "api/notebook_record.h"
#include "api/session_access.h"

namespace hutch {
namespace {

constexpr std::size_t kPage = 100;

// Newest first, without what they left.
Api<std::vector<StoredRun>> stored_runs(Daemon& daemon, const Caller& caller, const std::string& session_id) {
  std::vector<StoredRun> runs;
  RunFilter filter{.session_id = session_id, .limit = kPage};
  while (runs.size() < kMostCells) {
    auto page = daemon.stores.runs.list(caller.key.id, filter);
    if (!page) return std::unexpected(ApiError{.message = "The runs cannot be read."});
    for (auto& run : *page) runs.push_back(std::move(run));
    if (page->size() < kPage) break;
    filter.before = runs.back().id;
  }
  return runs;
}

ApiError no_room() {
  return {.status = 503,
          .category = "capacity",
          .code = "no_slots",
          .message = "Too many large notebooks are being made.",
          .hint = "Wait for those that you have asked for.",
          .retry_after = std::chrono::seconds(1)};
}

void add_cell(Notebook& notebook, NotebookOutputs& outputs, const std::string& id, const StoredCell& cell) {
  const std::size_t index = notebook.size();
  notebook.insert(index, {.source = cell.code, .id = id});
  outputs.begin(index);
  for (const auto& event : cell.events) outputs.add(event);
  std::ignore = outputs.end(cell.record);
}

}  // namespace

net::awaitable<Api<std::string>> notebook_of(Daemon& daemon, const Caller& caller, std::string session_id) {
  const auto session = find_session(daemon, caller, session_id);
  HUTCH_API_TRY(auto runs, stored_runs(daemon, caller, session_id));
  if (!session && runs.empty()) co_return std::unexpected(session.error());
  Notebook notebook = Notebook::make();
  NotebookOutputs outputs(notebook, HutchData::leave_out);
  BodyBudget::Share share(daemon.notebook_outputs, caller.key.id);  // grows here, and not on the other thread
  std::size_t bytes = 0;
  for (auto& one : std::views::reverse(runs)) {
    if (one.status == "queued" || one.status == "running") continue;
    const auto stored = daemon.stores.runs.get(one.id, caller.key.id);
    if (!stored || !*stored) continue;
    bytes += (*stored)->record.size() + (*stored)->events.size();
    co_await daemon.engine.workers().run(Workers::owner_of(caller.key.id), [&] {  // a large one would hold up others
      auto cell = read_stored_cell((*stored)->record, (*stored)->events);
      if (!cell) return false;
      if (bytes > kMostNotebookEvents) cell->events.assign(1, left_out());
      add_cell(notebook, outputs, one.id, *cell);
      return true;
    });
    if (!share.grow_to(outputs.taken())) co_return std::unexpected(no_room());
  }
  co_return notebook.text();
}

}  // namespace hutch
