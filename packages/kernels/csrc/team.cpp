#include "team.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int64_t MOST_WORKERS = 1023;
constexpr microseconds PATIENCE = milliseconds(5);       // between two steps lie a few milliseconds of Python
constexpr microseconds PATIENCE_IN_A_CROWD = microseconds(50);
constexpr microseconds LOOK_EVERY = milliseconds(50);
constexpr microseconds CROWD_LASTS = milliseconds(200);  // after it was seen last
constexpr int64_t CROWD_SHARE = 5;                       // a thread that waits for a core for more than a fifth of the time is in a crowd

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// How long a thread that could run has had to wait for a core. Any other may ask, one at a time.
class CoreDelay {
 public:
  // Of the calling thread.
  void open() { file_.store(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)); }
  ~CoreDelay() {
    if (file_.load() >= 0) ::close(file_.load());
  }

  // Since it was asked last, in nanoseconds; 0 where the system does not say.
  int64_t more() {
    const int64_t before = known_;
    known_ = read();
    return known_ - before;
  }

 private:
  int64_t read() const {
    char text[96];
    const int file = file_.load();
    const ssize_t size = file < 0 ? -1 : ::pread(file, text, sizeof(text) - 1, 0);
    if (size <= 0) return 0;
    text[size] = 0;
    unsigned long long running = 0, delay = 0;
    return std::sscanf(text, "%llu %llu", &running, &delay) == 2 ? static_cast<int64_t>(delay) : 0;
  }

  std::atomic<int> file_{-1};
  int64_t known_ = 0;
};

// Of a thread that calls.
struct CallerDelay : CoreDelay {
  CallerDelay() { open(); }
};

thread_local CallerDelay caller_delay;

// One thread waits, others tell it to look again.
class Waiter {
 public:
  template <class Condition>
  void wait(Condition is_met, microseconds patience) {
    const Clock::time_point end = Clock::now() + patience;
    do {
      for (int turn = 0; turn < 64; ++turn) {
        if (is_met()) return;
        relax();
      }
    } while (Clock::now() < end);
    std::unique_lock<std::mutex> lock(mutex_);
    asleep_.store(true);
    awake_.wait(lock, is_met);
    asleep_.store(false);
  }

  // After the condition came to be met.
  void tell() {
    if (!asleep_.load()) return;
    { const std::lock_guard<std::mutex> lock(mutex_); }
    awake_.notify_one();
  }

 private:
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable awake_;
};

struct Job {
  PartFunction function;
  void* context;
  std::atomic<int64_t> left;  // parts that others than the caller carry out
};

class Team;

struct alignas(64) Worker {
  Team* team;
  int64_t part;
  std::atomic<Job*> job{nullptr};
  Waiter waiter;
  CoreDelay delay;
};

class Team {
 public:
  void run(int64_t count, PartFunction function, void* context) {
    const std::lock_guard<std::mutex> turn(busy_);
    const int64_t workers = hire(count - 1);
    look_around();
    Job job = {function, context, {workers}};
    for (int64_t i = 0; i < workers; ++i) {
      workers_[i]->job.store(&job);
      workers_[i]->waiter.tell();
    }
    function(context, 0);
    for (int64_t part = workers + 1; part < count; ++part) function(context, part);
    caller_.wait([&job] { return job.left.load() == 0; }, patience_.load(std::memory_order_relaxed));
  }

  void work(Worker* worker) {
    worker->delay.open();
    for (;;) {
      worker->waiter.wait([worker] { return worker->job.load() != nullptr; }, patience_.load(std::memory_order_relaxed));
      Job* job = worker->job.exchange(nullptr);
      job->function(job->context, worker->part);
      // The job is gone as soon as nothing is left of it.
      if (job->left.fetch_sub(1) == 1) caller_.tell();
    }
  }

 private:
  // How many there are, as many as wanted if the system grants them.
  int64_t hire(int64_t wanted) {
    if (wanted > MOST_WORKERS) wanted = MOST_WORKERS;
    while (num_workers_ < wanted) {
      Worker* worker = new (std::nothrow) Worker;
      if (worker == nullptr) break;
      worker->team = this;
      worker->part = num_workers_ + 1;
      if (!start(worker)) {
        delete worker;
        break;
      }
      workers_[num_workers_++] = worker;
    }
    return num_workers_ < wanted ? num_workers_ : wanted;
  }

  // Signals are left to the threads of the program.
  static bool start(Worker* worker) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, enter, worker);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    return error == 0;
  }

  static void* enter(void* argument) {
    Worker* worker = static_cast<Worker*>(argument);
    worker->team->work(worker);
    return nullptr;
  }

  // Now and then: whether others want the cores.
  void look_around() {
    const Clock::time_point now = Clock::now();
    if (now < next_look_) return;
    int64_t longest = caller_delay.more();
    for (int64_t i = 0; i < num_workers_; ++i) {
      const int64_t delay = workers_[i]->delay.more();
      longest = delay > longest ? delay : longest;
    }
    const int64_t passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_look_).count();
    if (longest > passed / CROWD_SHARE) crowded_until_ = now + CROWD_LASTS;
    patience_.store(now < crowded_until_ ? PATIENCE_IN_A_CROWD : PATIENCE, std::memory_order_relaxed);
    last_look_ = now;
    next_look_ = now + LOOK_EVERY;
  }

  std::mutex busy_;
  Waiter caller_;
  std::atomic<microseconds> patience_{PATIENCE};
  Worker* workers_[MOST_WORKERS];
  int64_t num_workers_ = 0;
  Clock::time_point last_look_, next_look_, crowded_until_;
};

std::atomic<Team*> the_team{nullptr};

// A forked process has none of the threads; what it had of the team before is left behind.
void forget_team() { the_team.store(nullptr); }

// Never deleted: its threads work until the process ends. Null where there is no memory.
Team* find_team() {
  Team* team = the_team.load();
  if (team != nullptr) return team;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_team);
  static_cast<void>(registered);
  Team* made = new (std::nothrow) Team;
  if (made == nullptr || the_team.compare_exchange_strong(team, made)) return made;
  delete made;
  return team;
}

}  // namespace

void run_parts(int64_t count, PartFunction function, void* context) {
  Team* team = count > 1 ? find_team() : nullptr;
  if (team != nullptr) {
    team->run(count, function, context);
    return;
  }
  for (int64_t part = 0; part < count; ++part) function(context, part);
}
