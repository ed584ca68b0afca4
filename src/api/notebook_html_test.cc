#include "api/notebook_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>

#include "api/notebook_markdown.h"

namespace hutch {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

std::string page_of(const json::array& cells) {
  const auto notebook =
      Notebook::from_document({{"cells", cells}, {"metadata", json::object{}}, {"nbformat", 4}, {"nbformat_minor", 4}});
  return notebook ? notebook_html(*notebook) : notebook.error().message;
}

std::string page_showing(const json::object& data) {
  return page_of({json::object{
      {"cell_type", "code"},
      {"source", "x"},
      {"outputs", json::array{json::object{{"output_type", "display_data"}, {"data", data}, {"metadata", {}}}}}}});
}

TEST(NotebookHtmlTest, EscapesWhateverIsText) {
  const std::string hostile = "<script>alert('1')</script>";
  for (const char* type : {"code", "markdown", "raw"}) {
    EXPECT_THAT(page_of({json::object{{"cell_type", type}, {"source", hostile}}}), Not(HasSubstr("<script"))) << type;
  }
  for (const char* mime : {"text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml", "image/png"}) {
    EXPECT_THAT(page_showing({{mime, hostile}}), Not(HasSubstr("<script"))) << mime;
  }
  const json::array outputs{json::object{{"output_type", "stream"}, {"name", "stdout"}, {"text", hostile}},
                            json::object{{"output_type", "error"}, {"ename", hostile}, {"evalue", hostile}},
                            json::object{{"output_type", hostile}}};
  EXPECT_THAT(page_of({json::object{{"cell_type", "code"}, {"source", ""}, {"outputs", outputs}}}),
              Not(HasSubstr("<script")));
}

TEST(NotebookHtmlTest, PutsHtmlIntoAFrameWithoutRights) {
  const std::string page = page_showing({{"text/html", json::array{"<b>\"bold\"</b>", "&amp;"}}, {"text/plain", "no"}});
  EXPECT_THAT(page, HasSubstr("<iframe sandbox=\"\""));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&quot;bold&quot;&lt;/b&gt;&amp;amp;"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

TEST(NotebookHtmlTest, AllowsNoNetworkAndNoScripts) {
  EXPECT_THAT(page_of({}), HasSubstr("content=\"default-src 'none'; img-src data:;"));
}

TEST(NotebookHtmlTest, ShowsPicturesInline) {
  EXPECT_THAT(page_showing({{"image/png", "iVBO\n"}, {"text/html", "<i>"}}),
              HasSubstr("<img alt=\"output\" src=\"data:image/png;base64,iVBO\">"));
  EXPECT_THAT(page_showing({{"image/svg+xml", "<svg/>"}}), HasSubstr("data:image/svg+xml;base64,PHN2Zy8+"));
}

TEST(NotebookHtmlTest, LeavesOutColoursOfTerminals) {
  const json::array outputs{
      json::object{{"output_type", "stream"}, {"name", "stderr"}, {"text", "\x1b[31mred\x1b[0m"}}};
  EXPECT_THAT(page_of({json::object{{"cell_type", "code"}, {"source", ""}, {"outputs", outputs}}}),
              HasSubstr("<pre class=\"stderr\">red</pre>"));
}

TEST(NotebookHtmlTest, IsNamedAfterItsFirstHeading) {
  EXPECT_THAT(page_of({json::object{{"cell_type", "markdown"}, {"source", "# A & B\ntext"}}}),
              HasSubstr("<title>A &amp; B</title>"));
}

std::string rendered(std::string_view text) { return markdown_html(text, nullptr); }

TEST(MarkdownTest, KnowsWhatNotebooksUse) {
  EXPECT_EQ(rendered("# One\n## Two"), "<h1>One</h1>\n<h2>Two</h2>\n");
  EXPECT_EQ(rendered("a *b* **c** `d<` _e_ f_g_h"),
            "<p>a <em>b</em> <strong>c</strong> <code>d&lt;</code> <em>e</em> f_g_h</p>\n");
  EXPECT_EQ(rendered("- a\n- b\n\n1. c\n2. d"),
            "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n<ol>\n<li>c</li>\n<li>d</li>\n</ol>\n");
  EXPECT_EQ(rendered("```python\nx < 1\n```\nafter"), "<pre><code>x &lt; 1\n</code></pre>\n<p>after</p>\n");
  EXPECT_EQ(rendered("> quoted\n\n---"), "<blockquote>quoted</blockquote>\n<hr>\n");
  EXPECT_EQ(rendered("one\ntwo\n\nthree"), "<p>one\ntwo</p>\n<p>three</p>\n");
  EXPECT_EQ(rendered("2 * 3 * 4 \\*"), "<p>2 * 3 * 4 *</p>\n");
}

TEST(MarkdownTest, LinksOnlyToTheWeb) {
  EXPECT_EQ(rendered("[a](https://b.c/?d=1&e \"t\")"),
            "<p><a rel=\"noopener noreferrer nofollow\" href=\"https://b.c/?d=1&amp;e\">a</a></p>\n");
  for (const char* address : {"javascript:alert(1)", "data:text/html,x", "//b.c", " JavaScript:x", "vbscript:x"}) {
    EXPECT_THAT(rendered("[a](" + std::string(address) + ")"), Not(HasSubstr("href"))) << address;
  }
  EXPECT_THAT(rendered("[a](https://b.c\"onclick=\"x)"), Not(HasSubstr("\"onclick")));
  EXPECT_THAT(rendered("![a](https://b.c/d.png)"), Not(HasSubstr("<img")));
}

TEST(MarkdownTest, ShowsAttachedPictures) {
  const json::object attachments{{"a.png", json::object{{"image/png", "iVBO"}}},
                                 {"b", json::object{{"text/html", "<b>"}}},
                                 {"c", json::object{{"image/png", "\"><script>"}}}};
  EXPECT_EQ(markdown_html("![x\"](attachment:a.png)", &attachments),
            "<p><img alt=\"x&quot;\" src=\"data:image/png;base64,iVBO\"></p>\n");
  EXPECT_THAT(markdown_html("![x](attachment:b) ![x](attachment:c)", &attachments), Not(HasSubstr("<img")));
}

TEST(MarkdownTest, TakesNoLongerForHostileText) {
  const auto began = std::chrono::steady_clock::now();
  for (const char* piece : {"[", "*a", "_", "`", "![", "[](", "**", "> ", "1. ", "```\n", "\\", "*_"}) {
    std::string text;
    while (text.size() < 200'000) text += piece;
    rendered(text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

}  // namespace
}  // namespace hutch
