// The things that `hutch bench` measures, one function each: plain programs, engine calls, commands, live sessions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/engine_client.h"
#include "cli/bench_measure.h"
#include "session/template_store.h"

namespace hutch {

// A program and what it must print.
struct BenchProgram {
  const char* shown;
  const char* code;
  const char* output;
};

inline constexpr BenchProgram kPrint{.shown = "print(1)", .code = "print(1)", .output = "1\n"};
inline constexpr BenchProgram kGroupBy{
    .shown = "import pandas …",
    .code =
        "import pandas as pd\n"
        "frame = pd.DataFrame({'region': ['north', 'east', 'south', 'west'] * 250, 'amount': range(1000)})\n"
        "for region, amount in frame.groupby('region')['amount'].sum().items():\n"
        "    print(region, amount)\n",
    .output = "east 124750\nnorth 124500\nsouth 125000\nwest 125250\n"};

// Up to where a call is timed, from where its sandbox comes, and whose clock counts: that of the engine, from the
// request in its hand to the answer in its hand, or that of another process which asks the engine through a socket and
// is timed until it has the whole record.
enum class Until { first_output, whole_record };
enum class Start { as_served, on_demand };
enum class Seen { by_engine, by_client };

Series plain_python(const std::string& python, const BenchProgram& program, const Variables& variables, int per_round);
Series engine_call(EngineClient& client, const wire::RunRequest& request, const BenchProgram& program, Until until,
                   Seen seen, int per_round);
Series hutch_run(std::vector<std::string> arguments, const BenchProgram& program, int per_round);
// The same command with --json, for the steps that its record tells.
Series explained_run(std::vector<std::string> arguments, const BenchProgram& program, int per_round);
// A fork of the template's zygote whose child ends at once: no sandbox can be quicker.
Series bare_fork(EngineClient& client, const std::string& template_name, int per_round);
// One more cell in a session that stays open as long as the series does: the median of a few in a row, since nobody
// rests between cells as long as between runs.
Result<Series> live_cell(EngineClient client, wire::RunRequest request, Seen seen, int per_round);
std::optional<Series> bubblewrap(const Interpreter& interpreter, int per_round, std::vector<std::string>& notes);

}  // namespace hutch
