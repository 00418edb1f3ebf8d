// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

extern char** environ;

namespace rowsmith {
namespace {

namespace fs = std::filesystem;

// A directory of our own (mode 0700) that goes with its owner.
class PrivateDirectory {
 public:
  PrivateDirectory() {
    std::error_code error;
    const fs::path base = fs::temp_directory_path(error);
    std::string name = ((error ? fs::path("/tmp") : base) / "rowsmith-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) {
      path_ = name;
    } else {
      problem_ = "cannot make a directory '" + name + "': " + std::strerror(errno);
    }
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  ~PrivateDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const std::string& problem() const { return problem_; }
  std::string file(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
  std::string problem_;
};

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// What became of a process.
struct Ended {
  int start_error = 0;  // an errno if it did not start
  bool success = false;
  std::string how;  // "exit status 1"
};

Ended wait_for(pid_t process) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(process, &status, 0);
  } while (got < 0 && errno == EINTR);
  // Where the application ignores SIGCHLD there is no status: then the output must tell.
  if (got < 0) return {0, true, "unknown status"};
  if (WIFEXITED(status)) {
    return {0, WEXITSTATUS(status) == 0, "exit status " + std::to_string(WEXITSTATUS(status))};
  }
  return {0, false, "signal " + std::to_string(WTERMSIG(status))};
}

// Runs a program with files as its input and as its output and error.
Ended run_program(const std::vector<std::string>& arguments, const std::string& input,
                  const std::string& output) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  // Our threads may block signals; a compiler must not inherit that.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int error = posix_spawnp(&process, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return {error, false, std::strerror(error)};
  return wait_for(process);
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

HostCompiler find_host_compiler(const std::string& requested) {
  const PrivateDirectory directory;
  if (!directory.problem().empty()) return {"", "", directory.problem()};
  const std::string output = directory.file("version");
  std::vector<std::string> commands = {"c++", "g++", "clang++"};
  if (!requested.empty()) commands = {requested};
  Ended ended;
  for (const std::string& command : commands) {
    ended = run_program({command, "--version"}, "/dev/null", output);
    if (!ended.success) continue;
    const std::string text = read_file(output);
    return {command, text.substr(0, text.find('\n')), ""};
  }
  const std::string problem =
      requested.empty() ? "no C++ compiler: none of c++, g++ and clang++ on PATH runs"
                        : "the C++ compiler '" + requested + "' does not run: " + ended.how;
  return {"", "", problem + "; set ROWSMITH_CXX to one"};
}

std::vector<std::string> host_compiler_options(const std::vector<std::string>& more) {
  // -O2 gains nothing at run time, -O0 costs 2 to 3 times. The text's arithmetic is exact as
  // written: nothing is contracted. Large frames probe the stack, so that they meet its guard.
  std::vector<std::string> options = {"-std=c++20",
                                      "-O1",
                                      "-fPIC",
                                      "-shared",
                                      "-fvisibility=hidden",
                                      "-ffp-contract=off",
                                      "-fno-exceptions",
                                      "-fno-strict-aliasing",
                                      "-fstack-clash-protection",
                                      "-DROWSMITH_HOST=1"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

Result<Binary> compile_host_program(const HostCompiler& compiler,
                                    const std::vector<std::string>& options,
                                    const Program& program) {
  if (compiler.command.empty()) return Status(Code::kUnsupported, compiler.problem);
  const PrivateDirectory directory;
  if (!directory.problem().empty()) return Status(Code::kCompileFailed, directory.problem());
  const std::string source = directory.file("source"), object = directory.file("object"),
                    log = directory.file("log");
  {
    std::ofstream stream(source, std::ios::binary);
    stream << "#line 1 \"" << program.name << "\"\n" << program.source;
    if (!stream.flush()) return Status(Code::kCompileFailed, "cannot write '" + source + "'");
  }
  std::vector<std::string> arguments = {compiler.command};
  arguments.insert(arguments.end(), options.begin(), options.end());
  // From standard input, so that no temporary name gets into the object or the log.
  for (const char* argument : {"-x", "c++", "-", "-o"}) arguments.emplace_back(argument);
  arguments.push_back(object);
  const Ended ended = run_program(arguments, source, log);
  Binary binary{ended.success ? read_file(object) : "", read_file(log), ""};
  if (binary.bytes.empty()) {
    return Status(Code::kCompileFailed, "program '" + program.name + "': " + compiler.command +
                                            " (" + compiler.version + ") ended with " + ended.how +
                                            "; options: " + join(options) + "; log:\n" +
                                            binary.log);
  }
  return binary;
}

}  // namespace rowsmith
