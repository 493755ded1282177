// Launcher: a running tutti-run, for tests: its output, its end, and what it left behind.

#ifndef TUTTI_TESTS_PROCESS_LAUNCHER_H_
#define TUTTI_TESTS_PROCESS_LAUNCHER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "src/base/fd.h"

namespace tutti {

class Launcher {
 public:
  struct Options {
    std::vector<std::string> wrapper = {};  // in front of tutti-run: {"taskset", "-c", "0"}
    std::vector<std::string> set = {};      // "NAME=value", added to this process's variables
    std::vector<std::string> unset = {};    // names
    std::vector<int> ignored_signals = {};  // inherited by tutti-run as ignored
  };
  struct End {
    int exit_status = -1;  // -signal if it was killed by one
    absl::Duration elapsed;
    std::string out, err;
  };

  explicit Launcher(std::vector<std::string> arguments);
  Launcher(std::vector<std::string> arguments, const Options& options);
  ~Launcher();  // kills what is left
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void Signal(int number);
  // Reads both outputs until one holds the text. False if they end without it, or after a limit of 60 seconds.
  bool Prints(const std::string& text);
  // Whether it ends in this time; its output is left unread.
  bool EndsWithin(absl::Duration limit);
  void CloseOutput() { out_.Close(); }
  // Reads to the end of both outputs; sends SIGKILL after 60 seconds. `elapsed` counts from here.
  End Wait();

  // Processes, tutti-run itself included, that descend from it and are still there. Found by a variable that they
  // inherit: neither process groups, nor sessions, nor a change of parents hides them.
  std::vector<pid_t> Processes() const;
  // Waits until there are none, and returns how long that took. tutti-run must have ended; what it leaves has become a
  // child of this process. Give programs an end of their own, which bounds this.
  absl::Duration WaitForAll();

  const std::string& out() const { return out_text_; }
  const std::string& err() const { return err_text_; }

 private:
  bool ReadUntil(const std::string& text, absl::Time deadline);

  const std::string mark_;
  pid_t pid_ = 0;
  Fd pidfd_, out_, err_;
  std::string out_text_, err_text_;
};

// The lines of the text, sorted; their order among ranks means nothing.
std::vector<std::string> SortedLines(const std::string& text);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESS_LAUNCHER_H_
