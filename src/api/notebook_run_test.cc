#include "api/notebook_run.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace hutch {
namespace {

namespace json = boost::json;

wire::OutputEvent text(wire::Stream stream, std::string data) { return {.stream = stream, .data = std::move(data)}; }
wire::OutputEvent out(std::string data) { return text(wire::Stream::out, std::move(data)); }
wire::OutputEvent err(std::string data) { return text(wire::Stream::err, std::move(data)); }

wire::OutputEvent shown(wire::DisplayKind kind, std::string value, std::string id = "",
                        std::string mime = "text/plain") {
  wire::Display display{.kind = kind, .id = std::move(id)};
  display.items.emplace_back(std::move(mime), std::move(value));
  return {.display = std::make_shared<const wire::Display>(std::move(display))};
}

wire::OutputEvent cleared(bool wait) {
  return {.display =
              std::make_shared<const wire::Display>(wire::Display{.kind = wire::DisplayKind::clear, .wait = wait})};
}

wire::Record ended(std::uint32_t count) { return {.execution_count = count}; }

wire::Record raised(std::string name, std::string value, std::vector<std::string> traceback = {"File"}) {
  wire::Record record{.status = wire::Status::error, .execution_count = 1};
  record.error = wire::RunError{.category = "python_exception"};
  record.error->python =
      wire::PythonError{.name = std::move(name), .value = std::move(value), .traceback = std::move(traceback)};
  return record;
}

Notebook with_cells(const std::vector<std::string>& sources) {
  Notebook notebook = Notebook::make();
  for (const auto& source : sources) notebook.insert(notebook.size(), {.source = source});
  return notebook;
}

class NotebookRunTest : public testing::Test {
 protected:
  explicit NotebookRunTest() : run_(with_cells({"a", "b", "c"}), {}) {}

  // The outputs of the next cell.
  json::value outputs_of(const std::vector<wire::OutputEvent>& events, wire::Record record) {
    EXPECT_TRUE(run_.next());
    for (const auto& event : events) run_.add(event);
    run_.finish(std::move(record), AfterCell::interpreter_lives);
    return run_.notebook().cell(run_.cell()).at("outputs");
  }

  NotebookRun run_;
};

TEST_F(NotebookRunTest, JoinsWhatFollowsInOneStream) {
  const auto outputs = outputs_of({out("a\nb"), out("c\n"), err("x"), out("d")}, ended(1));
  EXPECT_EQ(outputs, json::parse(R"([{"name": "stdout", "output_type": "stream", "text": ["a\n", "bc\n"]},
    {"name": "stderr", "output_type": "stream", "text": ["x"]},
    {"name": "stdout", "output_type": "stream", "text": ["d"]}])"));
}

TEST_F(NotebookRunTest, KeepsCharactersWhole) {
  const auto outputs = outputs_of({out("\xc3"), err("x"), out("\xa9\xff"), out("\xe2\x82")}, ended(1));
  EXPECT_EQ(outputs.at(1).at("text").at(0), "\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(NotebookRun, LeavesOutWhatIsTooMuchAndSaysSoInEachCell) {
  NotebookRun run(with_cells({"a", "b"}), {.most_outputs = 5});
  const auto outputs_of = [&run](const std::vector<wire::OutputEvent>& events) {
    EXPECT_TRUE(run.next());
    for (const auto& event : events) run.add(event);
    run.finish(ended(1), AfterCell::interpreter_lives);
    return run.notebook().cell(run.cell()).at("outputs");
  };
  const auto told = [](const json::value& outputs) {
    return json::serialize(outputs).find("left out, the notebook would be too large") != std::string::npos;
  };
  const auto first = outputs_of({out("1234"), out("56"), out("7")});
  EXPECT_EQ(first.at(0).at("text").at(0), "1234");
  EXPECT_EQ(first.as_array().size(), 2U);
  EXPECT_TRUE(told(first.at(1)));
  const auto second = outputs_of({shown(wire::DisplayKind::display, "8")});
  EXPECT_EQ(second.as_array().size(), 1U);
  EXPECT_TRUE(told(second));
}

TEST_F(NotebookRunTest, CountsResults) {
  const auto outputs = outputs_of({shown(wire::DisplayKind::result, "1\n2")}, ended(7));
  EXPECT_EQ(outputs, json::parse(R"([{"data": {"text/plain": ["1\n", "2"]}, "execution_count": 7, "metadata": {},
    "output_type": "execute_result"}])"));
  EXPECT_EQ(run_.notebook().cell(0).at("execution_count"), 7);
}

TEST_F(NotebookRunTest, KeepsPicturesAsBase64AndJsonAsJson) {
  const auto outputs = outputs_of({shown(wire::DisplayKind::display, "\x89PNG", "", "image/png"),
                                   shown(wire::DisplayKind::display, R"({"a": [1]})", "", "application/json"),
                                   shown(wire::DisplayKind::display, "{}", "", "application/vnd.hutch.table+json")},
                                  ended(1));
  EXPECT_EQ(outputs.at(0).at("data").at("image/png"), "iVBORw==");
  EXPECT_EQ(outputs.at(1).at("data").at("application/json"), json::parse(R"({"a": [1]})"));
  EXPECT_TRUE(outputs.at(2).at("data").as_object().empty());
}

TEST_F(NotebookRunTest, UpdatesDisplaysOfEarlierCells) {
  const auto kind = wire::DisplayKind::display;
  outputs_of({shown(kind, "one", "x"), shown(kind, "other")}, ended(1));
  const auto second = outputs_of({shown(wire::DisplayKind::update, "two", "x")}, ended(2));
  EXPECT_TRUE(second.as_array().empty());
  const auto& first = run_.notebook().cell(0).at("outputs");
  EXPECT_EQ(first.at(0).at("data").at("text/plain").at(0), "two");
  EXPECT_EQ(first.at(1).at("data").at("text/plain").at(0), "other");
  outputs_of({shown(kind, "three", "x")}, ended(3));
  EXPECT_EQ(run_.notebook().cell(0).at("outputs").at(0).at("data").at("text/plain").at(0), "three");
}

TEST_F(NotebookRunTest, BoundsWhatUpdatesMakeOfIt) {
  outputs_of(std::vector(300, shown(wire::DisplayKind::display, "small", "x")), ended(1));
  const auto second = outputs_of({shown(wire::DisplayKind::update, std::string(1U << 20, 'u'), "x")}, ended(2));
  EXPECT_EQ(run_.notebook().cell(0).at("outputs").at(299).at("data").at("text/plain").at(0), "small");
  ASSERT_EQ(second.as_array().size(), 1);
  EXPECT_EQ(second.at(0).at("text").at(0), "[hutch: outputs were left out, the notebook would be too large]\n");
  outputs_of({shown(wire::DisplayKind::update, "again", "x")}, ended(3));
  EXPECT_EQ(run_.notebook().cell(0).at("outputs").at(299).at("data").at("text/plain").at(0), "again");
}

// The outputs of its next cell, as JSON.
std::string outputs_of(NotebookRun& run, const wire::OutputEvent& event, wire::Record record = ended(1)) {
  EXPECT_TRUE(run.next());
  run.add(event);
  run.finish(std::move(record), AfterCell::interpreter_lives);
  return json::serialize(run.notebook().cell(run.cell()).at("outputs"));
}

bool were_left_out(const std::string& outputs) {
  return outputs.find("outputs were left out, the notebook would be too large") != std::string::npos;
}

TEST(NotebookRun, SharesItsRoomWithOthersOfItsKey) {
  const auto budget = std::make_shared<BodyBudget>(BodyCaps{.all = 8'000, .small = 100});
  const auto share = [&budget] { return std::make_shared<BodyBudget::Share>(budget, "key"); };
  auto first = std::make_unique<NotebookRun>(with_cells({"a"}), NotebookOptions{.share = share()});
  NotebookRun second(with_cells({"a", "b", "c"}), {.share = share()});
  EXPECT_FALSE(were_left_out(outputs_of(*first, out(std::string(3'000, 'x')))));
  const auto large = outputs_of(second, out(std::string(2'000, 'Q')));
  EXPECT_TRUE(were_left_out(large));
  EXPECT_EQ(large.find('Q'), std::string::npos) << large;
  EXPECT_FALSE(were_left_out(outputs_of(second, out("small")))) << "that always fits";
  first.reset();
  EXPECT_FALSE(were_left_out(outputs_of(second, out(std::string(2'000, 'Q')))));
  EXPECT_GT(budget->used(), 2'000U);
}

TEST(NotebookRun, KeepsTheBeginningOfAnErrorThatIsTooLarge) {
  const auto budget = std::make_shared<BodyBudget>(BodyCaps{.all = 8'000, .small = 100});
  NotebookRun run(with_cells({"a"}), {.share = std::make_shared<BodyBudget::Share>(budget, "key")});
  const auto outputs = outputs_of(run, out("said"), raised("E", std::string(5'000, 'v')));
  EXPECT_TRUE(were_left_out(outputs));
  EXPECT_NE(outputs.find("said"), std::string::npos);
  EXPECT_NE(outputs.find(R"("ename":"E")"), std::string::npos);
  EXPECT_LT(outputs.size(), 1'000U);
  ASSERT_TRUE(run.failure());
  EXPECT_EQ(run.failure()->error.value.size(), 5'000U);
}

TEST_F(NotebookRunTest, SaysThatDisplaysWereCut) {
  const auto outputs = outputs_of({shown(wire::DisplayKind::display, "a")}, {.displays_truncated = true});
  EXPECT_EQ(outputs.at(1).at("text").at(0), "[hutch: the rest of the displays was left out]\n");
}

TEST_F(NotebookRunTest, ClearsAtOnceOrWhenSomethingComes) {
  EXPECT_EQ(outputs_of({out("a"), cleared(false), out("b")}, ended(1)).as_array().size(), 1);
  EXPECT_EQ(outputs_of({out("a"), cleared(true)}, ended(2)).at(0).at("text").at(0), "a");
  EXPECT_EQ(outputs_of({out("a"), cleared(true), err("b")}, ended(3)).at(0).at("name"), "stderr");
}

TEST_F(NotebookRunTest, MovesTheTracebackIntoTheError) {
  const auto outputs = outputs_of(
      {out("before"), err("a warning\nTraceback (most recent call last):\n  File \"x\"\nValueError: bad\n"), out("!")},
      raised("ValueError", "bad"));
  EXPECT_EQ(outputs, json::parse(R"([{"name": "stdout", "output_type": "stream", "text": ["before"]},
    {"name": "stderr", "output_type": "stream", "text": ["a warning\n"]},
    {"name": "stdout", "output_type": "stream", "text": ["!"]},
    {"ename": "ValueError", "evalue": "bad", "output_type": "error",
     "traceback": ["Traceback (most recent call last):", "  File \"x\"", "ValueError: bad"]}])"));
}

TEST_F(NotebookRunTest, FindsATracebackThatCameInPieces) {
  const auto outputs = outputs_of(
      {err("Traceback (most recent call last):\n"), out("x"), err("  File\nE: v\n"), out("y")}, raised("E", "v"));
  EXPECT_EQ(outputs.at(0).at("text"), json::array({"xy"}));
  EXPECT_EQ(outputs.at(1).at("traceback").as_array().size(), 3);
}

TEST_F(NotebookRunTest, MakesATracebackWhereTheProgramWroteNone) {
  const auto outputs = outputs_of({err("nothing like it\n")}, raised("E", "v", {"File \"x\", line 1, in f\n    f()"}));
  EXPECT_EQ(outputs.at(1).at("traceback"),
            json::array({"Traceback (most recent call last):", "  File \"x\", line 1, in f", "      f()", "E: v"}));
}

TEST_F(NotebookRunTest, CallsALimitByItsName) {
  wire::Record record;
  record.error = wire::RunError{.category = "timeout", .code = "wall_timeout", .message = "Too late."};
  const auto outputs = outputs_of({}, record);
  EXPECT_EQ(outputs.at(0).at("ename"), "TimeoutError");
  EXPECT_EQ(outputs.at(0).at("evalue"), "Too late.");
}

TEST_F(NotebookRunTest, StopsAtTheFirstError) {
  outputs_of({}, raised("E", "v"));
  EXPECT_FALSE(run_.next());
  ASSERT_TRUE(run_.failure());
  EXPECT_EQ(run_.failure()->cell, 0);
  EXPECT_EQ(run_.cells_run(), 1);
  EXPECT_FALSE(run_.complete());
}

TEST(NotebookRunOptionsTest, GoesOnWhereErrorsAreAllowedButNotWithoutAnInterpreter) {
  NotebookRun run(with_cells({"a", "b", "c"}), {.allow_errors = true});
  EXPECT_TRUE(run.next());
  run.finish(raised("First", ""), AfterCell::interpreter_lives);
  EXPECT_TRUE(run.next());
  run.finish(raised("Second", ""), AfterCell::interpreter_lives);
  EXPECT_EQ(run.failure()->error.name, "First");
  EXPECT_TRUE(run.next());
  run.finish({}, AfterCell::interpreter_gone);
  EXPECT_EQ(run.failure()->error.name, "SystemExit");
  EXPECT_EQ(run.cells_failed(), 3);
  EXPECT_FALSE(run.next());
}

TEST(NotebookRunOptionsTest, SkipsWhatIsNotToRun) {
  auto notebook = Notebook::read(R"({"cells": [
    {"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "source": " \n"},
    {"cell_type": "code", "source": "kept", "metadata": {"tags": ["skip-execution"]}, "execution_count": 3},
    {"cell_type": "code", "source": "run", "metadata": {"tags": ["raises-exception"]}, "execution_count": 4,
     "outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}]}],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 4})");
  ASSERT_TRUE(notebook) << notebook.error().message;
  NotebookRun run(std::move(*notebook), {});
  EXPECT_EQ(run.cells_to_run(), 1);
  EXPECT_EQ(run.next(), "run");
  EXPECT_EQ(run.cell(), 3);
  run.finish(raised("E", "v"), AfterCell::interpreter_lives);
  EXPECT_FALSE(run.failure()) << "it may fail";
  EXPECT_TRUE(run.complete());
  EXPECT_EQ(run.notebook().cell(2).at("execution_count"), 3);
  EXPECT_EQ(run.notebook().cell(3).at("outputs").at(0).at("ename"), "E");
}

std::string found(const std::string& before, const std::string& traceback, const wire::PythonError& python) {
  const auto begin = find_traceback(before + traceback, python);
  return begin ? (before + traceback).substr(*begin) : "nothing";
}

TEST(FindTracebackTest, TakesTheErrorsThatLedToIt) {
  const wire::PythonError python{.name = "KeyError", .traceback = {"File"}};
  const std::string plain = "Traceback (most recent call last):\n  File \"a\"\nKeyError: 1\n";
  EXPECT_EQ(found("Traceback (most recent call last):\nlogged\n", plain, python), plain);
  const std::string chained =
      "Traceback (most recent call last):\n  File \"a\"\nValueError\n\n"
      "During handling of the above exception, another exception occurred:\n\n" +
      plain;
  EXPECT_EQ(found("noise\n", chained, python), chained);
  const std::string remote =
      "pool.RemoteTraceback: \n\"\"\"\nTraceback (most recent call last):\n  File \"w\"\nE\n\"\"\"\n\n"
      "The above exception was the direct cause of the following exception:\n\n" +
      plain;
  EXPECT_EQ(found("noise\n", remote, python), remote);
  const std::string bare =
      "ValueError: never raised\n\n"
      "The above exception was the direct cause of the following exception:\n\n" +
      plain;
  EXPECT_EQ(found("noise\n\n", bare, python), bare);
}

TEST(FindTracebackTest, KnowsErrorsWithoutAStack) {
  const wire::PythonError syntax{.name = "SyntaxError", .line = 1};
  const std::string caret = "  File \"<cell 1>\", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n";
  EXPECT_EQ(found("noise\n", caret, syntax), caret);
  EXPECT_EQ(found("noise\n", "UsageError: no such magic\n", {.name = "UsageError"}), "UsageError: no such magic\n");
  EXPECT_EQ(found("noise\n", "a.b.CustomError\n", {.name = "CustomError"}), "a.b.CustomError\n");
  EXPECT_EQ(found("noise\n", "x\n", {.name = "Error"}), "nothing");
  EXPECT_EQ(found("", "", {.name = "Error"}), "nothing");
}

TEST(FindTracebackTest, KnowsGroups) {
  const wire::PythonError python{.name = "ExceptionGroup", .traceback = {"File"}};
  const std::string group =
      "  + Exception Group Traceback (most recent call last):\n  |   File \"a\"\n"
      "  | ExceptionGroup: many\n  +-+---\n    | Traceback (most recent call last):\n    | E\n    +---\n";
  EXPECT_EQ(found("noise\n", group, python), group);
}

}  // namespace
}  // namespace hutch
