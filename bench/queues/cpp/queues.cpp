// The C++ peers of ../src/queues.rs: moodycamel's ReaderWriterQueue (one to one) and ConcurrentQueue (many to many),
// with the same loads, cores and checks; a JSON line a queue and load. They only spin.
#include "bench.hpp"
#include <concurrentqueue.h>
#include <readerwriterqueue.h>

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
