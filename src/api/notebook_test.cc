#include "api/notebook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "api/notebook_parameters.h"
#include "api/notebook_text.h"

namespace hutch {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

std::string with_cells(const std::string& cells, int minor = 5) {
  return R"({"cells": [)" + cells + R"(], "metadata": {}, "nbformat": 4, "nbformat_minor": )" + std::to_string(minor) +
         "}";
}

std::string code_cell(const std::string& source, const std::string& more = "") {
  return R"({"cell_type": "code", "execution_count": null, "id": "a", "metadata": {}, "outputs": [], "source": )" +
         source + more + "}";
}

std::string refusal_of(const std::string& text) {
  const auto notebook = Notebook::read(text);
  return notebook ? "" : notebook.error().message;
}

TEST(NotebookTest, ReadsSourceAsTextOrAsLines) {
  const auto notebook = Notebook::read(with_cells(code_cell("\"a\\nb\"") + "," + code_cell(R"(["c\n", "d"])")));
  ASSERT_TRUE(notebook) << notebook.error().message;
  EXPECT_EQ(notebook->source(0), "a\nb");
  EXPECT_EQ(notebook->source(1), "c\nd");
}

TEST(NotebookTest, WritesWhatJupyterWouldWrite) {
  const std::string text = R"({
 "cells": [
  {
   "attachments": {
    "a.png": {
     "image/png": "iVBO"
    }
   },
   "cell_type": "markdown",
   "id": "one",
   "metadata": {
    "nothing": {},
    "number": 1.0,
    "small": 1e-07,
    "ünïcode": "\u0001\b\f\t\"\\"
   },
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "cell_type": "raw",
   "id": "two",
   "metadata": {},
   "source": []
  }
 ],
 "metadata": {
  "unknown": [
   null,
   true,
   -5,
   18446744073709551615
  ]
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
)";
  const auto notebook = Notebook::read(text);
  ASSERT_TRUE(notebook) << notebook.error().message;
  EXPECT_EQ(notebook->text(), text);
}

TEST(NotebookTest, MakesMissingIdsAndRaisesTheFormat) {
  const std::string cell = R"({"cell_type": "markdown", "metadata": {}, "source": "x"})";
  const auto notebook = Notebook::read(with_cells(cell + "," + cell, 0));
  ASSERT_TRUE(notebook) << notebook.error().message;
  EXPECT_EQ(notebook->document().at("nbformat_minor"), 5);
  const auto& first = notebook->cell(0).at("id").as_string();
  EXPECT_GE(first.size(), 8);
  EXPECT_NE(first, notebook->cell(1).at("id").as_string());
}

TEST(NotebookTest, ReplacesIdsThatTheFormatForbids) {
  const auto notebook =
      Notebook::read(with_cells(code_cell("\"\"") + "," + code_cell("\"\"") + "," +
                                R"({"cell_type": "raw", "id": "no spaces", "metadata": {}, "source": ""})"));
  ASSERT_TRUE(notebook) << notebook.error().message;
  EXPECT_EQ(notebook->cell(0).at("id"), "a");
  EXPECT_NE(notebook->cell(1).at("id"), "a");
  EXPECT_NE(notebook->cell(2).at("id"), "no spaces");
}

TEST(NotebookTest, RefusesOtherFormatsAndSaysWhatToDo) {
  const auto old = Notebook::read(R"({"worksheets": [], "metadata": {}, "nbformat": 3, "nbformat_minor": 0})");
  ASSERT_FALSE(old);
  EXPECT_THAT(old.error().message, HasSubstr("format 3"));
  EXPECT_THAT(old.error().hint, HasSubstr("nbconvert"));
  EXPECT_THAT(refusal_of(with_cells("", 6)), HasSubstr("format 4.6"));
  EXPECT_THAT(refusal_of(R"({"cells": [], "nbformat": 5, "nbformat_minor": 0})"), HasSubstr("format 5.0"));
}

TEST(NotebookTest, NamesWhatIsBroken) {
  EXPECT_THAT(refusal_of("{\n\"cells\": [,]}"), HasSubstr("line 2 is not valid JSON"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("nbformat"));
  EXPECT_THAT(refusal_of(R"({"nbformat": 4, "nbformat_minor": 5})"), HasSubstr("no list of cells"));
  EXPECT_THAT(refusal_of(with_cells("1")), HasSubstr("cell 1 is not an object"));
  EXPECT_THAT(refusal_of(with_cells(R"({"cell_type": "magic", "source": ""})")), HasSubstr("unknown cell_type magic"));
  EXPECT_THAT(refusal_of(with_cells(R"({"cell_type": "code", "source": 1})")), HasSubstr("source"));
  EXPECT_THAT(refusal_of(with_cells(R"({"cell_type": "code", "source": "", "outputs": [{}]})")),
              HasSubstr("output_type"));
  EXPECT_THAT(refusal_of(with_cells(R"({"cell_type": "code", "source": "", "execution_count": -1})")),
              HasSubstr("execution_count"));
  EXPECT_THAT(refusal_of(with_cells("") + "x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal_of(""), HasSubstr("not valid JSON"));
}

TEST(NotebookTest, SaysThatNanIsNoJson) {
  const auto notebook = Notebook::read(R"({"metadata": {"x": NaN}})");
  ASSERT_FALSE(notebook);
  EXPECT_THAT(notebook.error().hint, HasSubstr("NaN"));
}

TEST(NotebookTest, IsCappedInSizeDepthAndCells) {
  EXPECT_THAT(refusal_of(std::string(kMostNotebookBytes + 1, ' ')), HasSubstr("32 MiB"));
  EXPECT_THAT(refusal_of(std::string(100, '[')), HasSubstr("64 deep"));
  std::string cells = "1";
  for (std::size_t i = 0; i < kMostCells; ++i) cells += ",1";
  EXPECT_THAT(refusal_of(with_cells(cells)), HasSubstr("10000 cells"));
}

TEST(NotebookTest, KnowsTagsAndLanguages) {
  const auto notebook =
      Notebook::read(R"({"cells": [{"cell_type": "code", "source": "", "metadata": {"tags": ["a", 1]}}],
    "metadata": {"kernelspec": {"language": "Julia"}}, "nbformat": 4, "nbformat_minor": 4})");
  ASSERT_TRUE(notebook) << notebook.error().message;
  EXPECT_TRUE(notebook->has_tag(0, "a"));
  EXPECT_FALSE(notebook->has_tag(0, "b"));
  EXPECT_EQ(notebook->language(), "julia");
  EXPECT_EQ(Notebook::make().language(), "python");
}

TEST(NotebookTest, SplitsLinesAsPythonDoes) {
  const std::string text = "a\nb\r\nc\rd\v\x1c\xc2\x85\xe2\x80\xa8\xe2\x80\xaa";
  const json::array expected{"a\n", "b\r\n", "c\r", "d\v", "\x1c", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xaa"};
  EXPECT_EQ(lines_of(text), expected);
  std::string joined;
  EXPECT_TRUE(join_lines(lines_of(text), joined));
  EXPECT_EQ(joined, text);
  EXPECT_TRUE(lines_of("").empty());
  EXPECT_FALSE(join_lines(json::array{1}, joined));
}

std::string literal(std::string_view text) { return python_literal(json::parse(text)); }

TEST(NotebookParametersTest, AreLiteralsOfPython) {
  EXPECT_EQ(literal("null"), "None");
  EXPECT_EQ(literal("true"), "True");
  EXPECT_EQ(literal("-3"), "-3");
  EXPECT_EQ(literal("1.0"), "1.0");
  EXPECT_EQ(literal("1e300"), "1e+300");
  EXPECT_EQ(literal(R"(["a", {"b": null}])"), R"(["a", {"b": None}])");
  EXPECT_EQ(python_literal(json::value("\"\\'\n\x01\x7fé\xe2\x80\xa8")), R"("\"\\'\n\x01\x7fé\u2028")");
}

TEST(NotebookParametersTest, ReadTheCommandLine) {
  json::object parameters;
  for (const char* given : {"a=3", "b=0.5", "c=True", "d=None", "e=text", "f=[1, 2]", "g=007", "h=", "a=4", "i=x=y"}) {
    ASSERT_TRUE(add_parameter(parameters, given)) << given;
  }
  EXPECT_EQ(python_literal(parameters),
            R"({"a": 4, "b": 0.5, "c": True, "d": None, "e": "text", "f": [1, 2], "g": "007", "h": "", "i": "x=y"})");
  for (const char* given : {"a", "=1", "1a=1", "a b=1", "import=1", "a;b=1"}) {
    EXPECT_FALSE(add_parameter(parameters, given)) << given;
  }
}

Notebook three_cells(const std::string& tag) {
  const std::string tagged = R"({"cell_type": "code", "metadata": {"tags": [")" + tag + R"("]}, "source": "x = 1"})";
  auto notebook = Notebook::read(with_cells(code_cell("\"first\"") + "," + tagged + "," + code_cell("\"last\"")));
  EXPECT_TRUE(notebook) << notebook.error().message;
  return std::move(*notebook);
}

TEST(NotebookParametersTest, ComeAfterTheDefaults) {
  auto notebook = three_cells("parameters");
  ASSERT_TRUE(inject_parameters(notebook, {{"x", 2}, {"name", "it's"}}));
  ASSERT_EQ(notebook.size(), 4);
  EXPECT_EQ(notebook.source(1), "x = 1");
  EXPECT_EQ(notebook.source(2), "# Parameters\nx = 2\nname = \"it's\"\n");
  EXPECT_TRUE(notebook.has_tag(2, "injected-parameters"));
}

TEST(NotebookParametersTest, ReplaceThoseOfAnEarlierRun) {
  auto notebook = three_cells("injected-parameters");
  ASSERT_TRUE(inject_parameters(notebook, {{"x", 2}}));
  ASSERT_EQ(notebook.size(), 3);
  EXPECT_EQ(notebook.source(1), "# Parameters\nx = 2\n");
}

TEST(NotebookParametersTest, ComeFirstWhereThereAreNoDefaults) {
  auto notebook = three_cells("other");
  ASSERT_TRUE(inject_parameters(notebook, {}));
  EXPECT_EQ(notebook.size(), 3);
  ASSERT_TRUE(inject_parameters(notebook, {{"x", 2}}));
  EXPECT_EQ(notebook.source(0), "# Parameters\nx = 2\n");
  EXPECT_FALSE(inject_parameters(notebook, {{"not a name", 2}}));
}

}  // namespace
}  // namespace hutch
