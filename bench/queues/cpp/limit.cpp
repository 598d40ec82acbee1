// What two cores can do with a textbook ring: positions on lines of their own, each end's memory of the other's, and an
// array. It only spins, and knows no end and no waking: the limit that the queues are measured against.
#include "bench.hpp"
#include <atomic>
#include <memory>

template <class T> struct Ring {
    alignas(128) std::atomic<uint64_t> head{0};
    uint64_t seen_tail = 0;
    alignas(128) std::atomic<uint64_t> tail{0};
    uint64_t seen_head = 0;
    alignas(128) T slots[CAPACITY];

    template <class Make> void push(size_t count, Make make) {
        uint64_t h = head.load(std::memory_order_relaxed);
        while (h - seen_tail > CAPACITY - count) {
            seen_tail = tail.load(std::memory_order_acquire);
            if (h - seen_tail > CAPACITY - count) pause_a_while();
        }
        for (size_t k = 0; k < count; k++) slots[(h + k) % CAPACITY] = make(k);
        head.store(h + count, std::memory_order_release);
    }
    template <class Take> uint64_t pop(size_t max, Take take) {
        uint64_t t = tail.load(std::memory_order_relaxed);
        if (seen_head == t) seen_head = head.load(std::memory_order_acquire);
        if (seen_head == t) pause_a_while();
        uint64_t end = std::min<uint64_t>(seen_head, t + max);
        for (uint64_t k = t; k < end; k++) take(slots[k % CAPACITY]);
        if (end > t) tail.store(end, std::memory_order_release);
        return end - t;
    }
};

template <class T, size_t COUNT, size_t MAX, class Make, class Take> uint64_t run(uint64_t n, Make make, Take take) {
    auto ring = std::make_unique<Ring<T>>();
    return both([&] { for (uint64_t i = 1; i <= n; i += COUNT) ring->push(COUNT, [&](size_t k) { return make(i + k); }); },
                [&] { uint64_t got = 0, sum = 0; while (got < n) got += ring->pop(MAX, [&](T item) { sum += take(item); }); return sum; });
}
static uint32_t number(uint64_t i) { return (uint32_t)i; }
static uint64_t itself(uint32_t i) { return i; }
static uint64_t first(Message *m) { return m->words[0]; }
static uint64_t one(uint64_t n) { return run<uint32_t, 1, 1>(n, number, itself); }
static uint64_t batch(uint64_t n) { return run<uint32_t, BATCH, CAPACITY>(n, number, itself); }
static uint64_t reference(uint64_t n) { return run<Message *, REFERENCES, REFERENCES>(n, written, first); }

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    measure("limit", "one", one, rounds);
    measure("limit", "batch", batch, rounds);
    measure("limit", "reference", reference, rounds);
}
