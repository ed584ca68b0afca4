#include "api/notebook_record.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "api/json_text.h"
#include "api/record_json.h"

namespace hutch {
namespace {

namespace json = boost::json;

wire::OutputEvent shown(wire::DisplayKind kind, std::string id, std::string mime, std::string value) {
  wire::Display display{.kind = kind, .id = std::move(id), .metadata = R"({"a":1})"};
  display.items.emplace_back(std::move(mime), std::move(value));
  return {.display = std::make_shared<const wire::Display>(std::move(display))};
}

std::optional<StoredCell> stored(const wire::Record& record, const std::vector<wire::OutputEvent>& events) {
  json::object object = record_object(record, events, {});
  object["code"] = "the code";
  object["execution_count"] = record.execution_count;
  return read_stored_cell(json_text(object), json_text(events_array(events)));
}

TEST(NotebookRecordTest, BringsBackEveryEventInOrder) {
  const std::vector<wire::OutputEvent> events{
      {.data = "out"},
      shown(wire::DisplayKind::display, "x", "text/plain", "first"),
      {.stream = wire::Stream::err, .data = "err"},
      shown(wire::DisplayKind::display, "", "image/png", "\x89PNG\r\n\x1a\n"),
      {.display = std::make_shared<const wire::Display>(wire::Display{.kind = wire::DisplayKind::clear, .wait = true})},
      shown(wire::DisplayKind::display, "x", "application/json", R"({"b":[1.5]})"),
      shown(wire::DisplayKind::update, "x", "text/plain", "second"),
      shown(wire::DisplayKind::result, "", "text/plain", "42")};
  const auto cell = stored({.execution_count = 7}, events);
  ASSERT_TRUE(cell);
  EXPECT_EQ(cell->code, "the code");
  EXPECT_EQ(cell->record.execution_count, 7);
  ASSERT_EQ(cell->events.size(), events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& before = events[i];
    const auto& after = cell->events[i];
    EXPECT_EQ(after.stream, before.stream) << i;
    EXPECT_EQ(after.data, before.data) << i;
    ASSERT_EQ(after.display != nullptr, before.display != nullptr) << i;
    if (!before.display) continue;
    EXPECT_EQ(after.display->kind, before.display->kind) << i;
    EXPECT_EQ(after.display->items, before.display->items) << i;
    EXPECT_EQ(after.display->id, before.display->id) << i;
    EXPECT_EQ(after.display->wait, before.display->wait) << i;
  }
}

TEST(NotebookRecordTest, BringsBackTheError) {
  wire::Record record{.status = wire::Status::error, .exit_code = 1, .stdout_truncated = true};
  record.error = wire::RunError{.category = "python_exception", .code = "exception", .message = "said"};
  record.error->python = wire::PythonError{.name = "E", .value = "v", .line = 3, .traceback = {"File", "other"}};
  const auto cell = stored(record, {});
  ASSERT_TRUE(cell && cell->record.error && cell->record.error->python);
  EXPECT_EQ(cell->record.error->category, "python_exception");
  EXPECT_EQ(cell->record.error->python->name, "E");
  EXPECT_EQ(cell->record.error->python->line, 3);
  EXPECT_EQ(cell->record.error->python->traceback.size(), 2);
  EXPECT_TRUE(cell->record.stdout_truncated);
}

TEST(NotebookRecordTest, IsNothingForWhatIsNoCode) {
  EXPECT_FALSE(read_stored_cell(R"({"command": "ls"})", "[]"));
  EXPECT_FALSE(read_stored_cell("broken", "[]"));
  const auto cell = read_stored_cell(R"({"code": "x", "displays": []})",
                                     R"([1, {"type": "display", "display": 9}, {"type": "result"}, {"type": "odd"}])");
  ASSERT_TRUE(cell);
  EXPECT_EQ(cell->events.size(), 2);
}

}  // namespace
}  // namespace hutch
