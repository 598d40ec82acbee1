// What the C++ programs of this folder share: two pinned threads, a check of what arrived, medians as JSON lines.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <thread>
#include <vector>

constexpr size_t CAPACITY = 1 << 16, BATCH = 64, REFERENCES = 32, POOL = 1 << 18;
struct alignas(64) Message { volatile uint64_t words[8]; };
static std::vector<Message> pool(POOL);

static inline void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}
static inline void pause_a_while() {
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
static inline Message *written(uint64_t i) {
    Message *m = &pool[i % POOL];
    m->words[0] = i;
    return m;
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
    double found = rate(run, n);
    for (; n < found / 16; found = rate(run, n)) n *= 4;
    n = std::min<uint64_t>(1 << 29, std::max<uint64_t>(n, found / 4)) / BATCH * BATCH;
    std::vector<double> rates;
    for (int r = 0; r < rounds; r++) rates.push_back(rate(run, n));
    std::sort(rates.begin(), rates.end());
    printf("{\"queue\":\"%s\",\"load\":\"%s\",\"items\":%lu,\"median\":%.0f,\"best\":%.0f}\n", queue, load, n, rates[rates.size() / 2], rates.back());
    fflush(stdout);
}
