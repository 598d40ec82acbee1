// The C++ peers of ../src/queues.rs: moodycamel's ReaderWriterQueue (one to one) and ConcurrentQueue (many to many),
// with the same loads, cores and checks; a JSON line a queue and load. They only spin.
#include <algorithm>
#include <chrono>
#include <concurrentqueue.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <readerwriterqueue.h>
#include <thread>
#include <vector>

constexpr size_t CAPACITY = 1 << 16, BATCH = 64, REFERENCES = 32, POOL = 1 << 18;
struct alignas(128) Message { volatile uint64_t words[8]; };
static std::vector<Message> pool(POOL);

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core % std::thread::hardware_concurrency(), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}
static void pause_a_while() {
    thread_local unsigned waited = 0;
    if (++waited % 2000 == 0) std::this_thread::yield(); else __builtin_ia32_pause();
}
template <class Send, class Receive> uint64_t both(Send send, Receive receive) {
    std::thread sending([&] { pin(0); send(); });
    pin(1);
    uint64_t sum = receive();
    sending.join();
    return sum;
}
static Message *written(uint64_t i) {
    Message *m = &pool[i % POOL];
    m->words[0] = i;
    return m;
}

template <class Q, class P> uint64_t one(uint64_t n) {
    Q q(CAPACITY);
    return both([&] { for (uint64_t i = 1; i <= n; i++) while (!q.try_enqueue((uint32_t)i)) pause_a_while(); },
                [&] { uint64_t sum = 0; uint32_t v; for (uint64_t i = 0; i < n; i++) { while (!q.try_dequeue(v)) pause_a_while(); sum += v; } return sum; });
}
template <class Q, class P> uint64_t reference(uint64_t n) {
    P q(CAPACITY);
    return both([&] { for (uint64_t i = 1; i <= n; i++) { Message *m = written(i); while (!q.try_enqueue(m)) pause_a_while(); } },
                [&] { uint64_t sum = 0; Message *m; for (uint64_t i = 0; i < n; i++) { while (!q.try_dequeue(m)) pause_a_while(); sum += m->words[0]; } return sum; });
}
// ConcurrentQueue takes and gives batches; ReaderWriterQueue does not.
static uint64_t bulk(uint64_t n) {
    moodycamel::ConcurrentQueue<uint32_t> q(CAPACITY);
    return both([&] { moodycamel::ProducerToken token(q); uint32_t b[BATCH];
                      for (uint64_t i = 1; i <= n; i += BATCH) { for (size_t k = 0; k < BATCH; k++) b[k] = (uint32_t)(i + k); while (q.size_approx() > CAPACITY) pause_a_while(); q.enqueue_bulk(token, b, BATCH); } },
                [&] { moodycamel::ConsumerToken token(q); std::vector<uint32_t> b(4096); uint64_t got = 0, sum = 0;
                      while (got < n) { size_t k = q.try_dequeue_bulk(token, b.data(), b.size()); if (!k) pause_a_while(); for (size_t j = 0; j < k; j++) sum += b[j]; got += k; } return sum; });
}
static double rate(uint64_t (*run)(uint64_t), uint64_t n) {
    auto begin = std::chrono::steady_clock::now();
    uint64_t sum = run(n);
    double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (sum != n * (n + 1) / 2) { fprintf(stderr, "what arrived is wrong\n"); exit(1); }
    return n / s;
}
static void measure(const char *queue, const char *load, uint64_t (*run)(uint64_t), int rounds) {
    uint64_t n = 1 << 18;
    n = std::min<uint64_t>(1 << 28, std::max<uint64_t>(n, rate(run, n) / 4)) / BATCH * BATCH;
    std::vector<double> rates;
    for (int r = 0; r < rounds; r++) rates.push_back(rate(run, n));
    std::sort(rates.begin(), rates.end());
    printf("{\"queue\":\"%s\",\"load\":\"%s\",\"items\":%lu,\"median\":%.0f,\"best\":%.0f}\n", queue, load, n, rates[rates.size() / 2], rates.back());
}
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    using RW = moodycamel::ReaderWriterQueue<uint32_t>; using RWp = moodycamel::ReaderWriterQueue<Message *>;
    using CQ = moodycamel::ConcurrentQueue<uint32_t>; using CQp = moodycamel::ConcurrentQueue<Message *>;
    measure("readerwriterqueue (C++)", "one", one<RW, RWp>, rounds);
    measure("readerwriterqueue (C++)", "reference", reference<RW, RWp>, rounds);
    measure("concurrentqueue (C++)", "one", one<CQ, CQp>, rounds);
    measure("concurrentqueue (C++)", "batch", bulk, rounds);
    measure("concurrentqueue (C++)", "reference", reference<CQ, CQp>, rounds);
}
