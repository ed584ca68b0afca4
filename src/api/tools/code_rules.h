// What the scan of code_scan.h looks for, and what it says of it. The sentence goes on after the name that was found.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "api/tools/code_scan.h"

namespace hutch {

enum class SeenIn : std::uint8_t {
  import,    // imported, also with `from`; a rule for a module is one for what is in it
  anywhere,  // imported, or used as part of a dotted name
  call,      // a bare name that is called
};

struct NameRule {
  std::string_view name;  // dotted, as if nothing had been renamed; a '*' at the end stands for anything
  SeenIn seen;
  Risk risk;
  std::string_view warning;
};

inline constexpr std::string_view kNoNetwork = "needs a network, and there is no network in the sandbox";
inline constexpr std::string_view kNative = "calls native code, where a mistake ends the interpreter";
inline constexpr std::string_view kPrograms = "starts other programs, which share the sandbox and its limits";
inline constexpr std::string_view kSource = "runs source that is made at run time and was not looked at";
inline constexpr std::string_view kPickle = "runs whatever the data says: load only what you made yourself";
inline constexpr std::string_view kPrivileges = "needs privileges that nothing in the sandbox has";
inline constexpr std::string_view kNoDisplay = "needs a display, and there is none in the sandbox";

inline constexpr auto kNameRules = std::to_array<NameRule>({
    {"ctypes", SeenIn::anywhere, Risk::high, kNative},
    {"_ctypes", SeenIn::import, Risk::high, kNative},
    {"cffi", SeenIn::import, Risk::high, kNative},
    {"ptrace", SeenIn::import, Risk::critical, "takes over other processes; the sandbox refuses that"},

    {"subprocess", SeenIn::anywhere, Risk::medium, kPrograms},
    {"pty", SeenIn::import, Risk::medium, kPrograms},
    {"pexpect", SeenIn::import, Risk::medium, kPrograms},
    {"os.system", SeenIn::anywhere, Risk::medium, kPrograms},
    {"os.popen", SeenIn::anywhere, Risk::medium, kPrograms},
    {"os.exec*", SeenIn::anywhere, Risk::medium, "replaces the interpreter with another program"},
    {"os.spawn*", SeenIn::anywhere, Risk::medium, kPrograms},
    {"os.posix_spawn*", SeenIn::anywhere, Risk::medium, kPrograms},
    {"asyncio.create_subprocess_*", SeenIn::anywhere, Risk::medium, kPrograms},
    {"os.fork*", SeenIn::anywhere, Risk::medium, "copies the interpreter; the number of processes is limited"},
    {"multiprocessing", SeenIn::import, Risk::low, "starts processes, the number of which is limited"},
    {"os.kill*", SeenIn::anywhere, Risk::medium, "ends processes of the sandbox, perhaps the interpreter itself"},
    {"os._exit", SeenIn::anywhere, Risk::low, "ends the interpreter at once, and output that is buffered is lost"},

    {"os.chroot", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.unshare", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.setns", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.mknod", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.setuid", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.seteuid", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.setreuid", SeenIn::anywhere, Risk::high, kPrivileges},
    {"os.setresuid", SeenIn::anywhere, Risk::high, kPrivileges},

    {"eval", SeenIn::call, Risk::medium, kSource},
    {"exec", SeenIn::call, Risk::medium, kSource},
    {"compile", SeenIn::call, Risk::medium, kSource},
    {"__import__", SeenIn::call, Risk::medium, "imports a module by a name that can be made at run time"},
    {"importlib.import_module", SeenIn::anywhere, Risk::low, "imports a module by a name that can be made at run time"},
    {"pickle.load*", SeenIn::anywhere, Risk::medium, kPickle},
    {"pickle.Unpickler", SeenIn::anywhere, Risk::medium, kPickle},
    {"cloudpickle.load*", SeenIn::anywhere, Risk::medium, kPickle},
    {"dill.load*", SeenIn::anywhere, Risk::medium, kPickle},
    {"joblib.load", SeenIn::anywhere, Risk::medium, kPickle},
    {"marshal.load*", SeenIn::anywhere, Risk::medium, kPickle},
    {"shelve.open", SeenIn::anywhere, Risk::medium, kPickle},
    {"pandas.read_pickle", SeenIn::anywhere, Risk::medium, kPickle},
    {"yaml.unsafe_load*", SeenIn::anywhere, Risk::medium, kPickle},

    {"socket", SeenIn::anywhere, Risk::medium, kNoNetwork},
    {"urllib.request", SeenIn::anywhere, Risk::medium, kNoNetwork},
    {"http.client", SeenIn::anywhere, Risk::medium, kNoNetwork},
    {"urllib3", SeenIn::import, Risk::medium, kNoNetwork},
    {"requests", SeenIn::import, Risk::medium, kNoNetwork},
    {"httpx", SeenIn::import, Risk::medium, kNoNetwork},
    {"aiohttp", SeenIn::import, Risk::medium, kNoNetwork},
    {"websockets", SeenIn::import, Risk::medium, kNoNetwork},
    {"websocket", SeenIn::import, Risk::medium, kNoNetwork},
    {"ftplib", SeenIn::import, Risk::medium, kNoNetwork},
    {"smtplib", SeenIn::import, Risk::medium, kNoNetwork},
    {"imaplib", SeenIn::import, Risk::medium, kNoNetwork},
    {"poplib", SeenIn::import, Risk::medium, kNoNetwork},
    {"telnetlib", SeenIn::import, Risk::medium, kNoNetwork},
    {"paramiko", SeenIn::import, Risk::medium, kNoNetwork},
    {"boto3", SeenIn::import, Risk::medium, kNoNetwork},
    {"pip", SeenIn::import, Risk::medium, kNoNetwork},

    {"tkinter", SeenIn::import, Risk::low, kNoDisplay},
    {"turtle", SeenIn::import, Risk::low, kNoDisplay},
    {"webbrowser", SeenIn::import, Risk::low, kNoDisplay},
});

// Attributes, whatever they are attributes of, and strings that are nothing but such a name.
struct AttributeRule {
  std::string_view name;
  bool native;  // counts only where native code can be called
  Risk risk;
  std::string_view warning;
};
inline constexpr auto kAttributeRules = std::to_array<AttributeRule>({
    {"ptrace", true, Risk::critical, "takes over other processes; the sandbox refuses that"},
    {"process_vm_writev", true, Risk::critical, "writes into the memory of other processes"},
    {"process_vm_readv", true, Risk::critical, "reads the memory of other processes"},
    {"syscall", true, Risk::high, "makes system calls directly; the sandbox refuses those that Python does not need"},
    {"__subclasses__", false, Risk::medium, "is a way around names; no wall of the sandbox is made of Python"},
    {"__globals__", false, Risk::medium, "is a way around names; no wall of the sandbox is made of Python"},
});

// Strings that begin and end so, with anything between.
struct LiteralRule {
  std::string_view begin;
  std::string_view end;
  Risk risk;
  std::string_view warning;
};
inline constexpr auto kLiteralRules = std::to_array<LiteralRule>({
    {"/proc/", "/mem", Risk::critical, "is the memory of a process"},
    {"/proc", "/kcore", Risk::critical, "is the memory of the kernel"},
    {"/dev/", "mem", Risk::critical, "is the memory of the machine"},
    {"/proc", "/sysrq-trigger", Risk::critical, "is a switch of the whole machine"},
    {"/proc", "/core_pattern", Risk::critical, "is a setting of the whole machine"},
    {"/", "/release_agent", Risk::critical, "is a known way out of containers"},
});

// Functions whose first argument is a path, and where files are expected to be.
inline constexpr auto kFileFunctions = std::to_array<std::string_view>(
    {"open", "io.open", "os.open", "codecs.open", "os.remove", "os.unlink", "shutil.rmtree", "pathlib.Path"});
inline constexpr auto kFileRoots = std::to_array<std::string_view>({"/workspace", "/tmp"});
inline constexpr auto kFileExceptions =
    std::to_array<std::string_view>({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/urandom"});

}  // namespace hutch
