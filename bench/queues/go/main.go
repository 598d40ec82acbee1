// The Go peers of ../src/queues.rs and ../src/fabric.rs: channels and goroutines with the same loads and checks; a JSON
// line each. Usage: queues queues ROUNDS, queues fabric ROUNDS
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"
)

const (
	capacity = 1 << 16
	batch    = 64
	pooled   = 1 << 18
)

type message struct{ words [8]uint64 }

var pool [pooled]message

func one(n uint64) uint64 {
	c := make(chan uint32, capacity)
	go func() {
		for i := uint64(1); i <= n; i++ {
			c <- uint32(i)
		}
		close(c)
	}()
	var sum uint64
	for i := range c {
		sum += uint64(i)
	}
	return sum
}

func batches(n uint64) uint64 {
	c := make(chan [batch]uint32, capacity/batch)
	go func() {
		for i := uint64(1); i <= n; i += batch {
			var b [batch]uint32
			for k := range b {
				b[k] = uint32(i + uint64(k))
			}
			c <- b
		}
		close(c)
	}()
	var sum uint64
	for b := range c {
		for _, i := range b {
			sum += uint64(i)
		}
	}
	return sum
}

func reference(n uint64) uint64 {
	c := make(chan *message, capacity)
	go func() {
		for i := uint64(1); i <= n; i++ {
			m := &pool[i%pooled]
			m.words[0] = i
			c <- m
		}
		close(c)
	}()
	var sum uint64
	for m := range c {
		sum += m.words[0]
	}
	return sum
}

// Every goroutine passes on what its neighbor gives it; `tokens` messages a goroutine go round together.
func ring(threads, tokens, hops int) int {
	channels := make([]chan uint64, threads)
	for i := range channels {
		channels[i] = make(chan uint64, tokens*threads)
		for t := 0; t < tokens; t++ {
			channels[i] <- uint64(hops)
		}
	}
	var all sync.WaitGroup
	passed := make([]int, threads)
	for t := 0; t < threads; t++ {
		all.Add(1)
		go func() {
			defer all.Done()
			to := channels[(t+1)%threads]
			for left := range channels[t] {
				if left == 0 {
					break
				}
				passed[t]++
				to <- left - 1
			}
			to <- 0
		}()
	}
	all.Wait()
	sum := 0
	for _, p := range passed {
		sum += p
	}
	return sum
}

// Every goroutine sends `each` messages to every other, in turn, through one inbox a goroutine.
func mesh(threads, each int) int {
	inboxes := make([]chan uint64, threads)
	for i := range inboxes {
		inboxes[i] = make(chan uint64, 1024*threads)
	}
	var all sync.WaitGroup
	got := make([]int, threads)
	for t := 0; t < threads; t++ {
		all.Add(2)
		go func() {
			defer all.Done()
			for i := 0; i < each; i++ {
				for k := 1; k < threads; k++ {
					inboxes[(t+k)%threads] <- uint64(i)
				}
			}
		}()
		go func() {
			defer all.Done()
			for got[t] < each*(threads-1) {
				<-inboxes[t]
				got[t]++
			}
		}()
	}
	all.Wait()
	sum := 0
	for _, g := range got {
		sum += g
	}
	return sum
}

func median(rounds int, run func() float64) (float64, float64) {
	var rates []float64
	for r := 0; r < rounds; r++ {
		rates = append(rates, run())
	}
	sort.Float64s(rates)
	return rates[len(rates)/2], rates[len(rates)-1]
}

func main() {
	rounds := 5
	if len(os.Args) > 2 {
		rounds, _ = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) > 1 && os.Args[1] == "fabric" {
		fabric(rounds)
		return
	}
	for _, l := range []struct {
		load string
		n    uint64
		run  func(uint64) uint64
	}{{"one", 1 << 22, one}, {"batch", 1 << 26, batches}, {"reference", 1 << 22, reference}} {
		m, best := median(rounds, func() float64 {
			begin := time.Now()
			if l.run(l.n) != l.n*(l.n+1)/2 {
				panic("what arrived is wrong")
			}
			return float64(l.n) / time.Since(begin).Seconds()
		})
		fmt.Printf("{\"queue\":\"Go channel\",\"load\":%q,\"items\":%d,\"median\":%.0f,\"best\":%.0f}\n", l.load, l.n, m, best)
	}
}

func fabric(rounds int) {
	for threads := 2; threads <= 8; threads++ {
		for _, pattern := range []string{"ring", "mesh"} {
			m, best := median(rounds, func() float64 {
				begin := time.Now()
				var n int
				if pattern == "ring" {
					n = ring(threads, 64, 10000)
				} else {
					n = mesh(threads, 1500000/(threads*(threads-1)))
				}
				return float64(n) / time.Since(begin).Seconds()
			})
			fmt.Printf("{\"fabric\":\"Go channels\",\"pattern\":%q,\"threads\":%d,\"median\":%.0f,\"best\":%.0f}\n", pattern, threads, m, best)
		}
	}
}
