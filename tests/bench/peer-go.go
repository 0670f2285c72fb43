// SPDX-License-Identifier: Apache-2.0
//
// peer-go.go: goroutines.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func fib(n int) uint64 {
	if n < 2 {
		return uint64(n)
	}
	c := make(chan uint64, 1)
	go func() { c <- fib(n - 1) }()
	b := fib(n - 2)
	return <-c + b
}

func calls(n int) float64 {
	if n < 2 {
		return 1
	}
	return 1 + calls(n-1) + calls(n-2)
}

func main() {
	workers, _ := strconv.Atoi(os.Args[2])
	runtime.GOMAXPROCS(workers)
	best := 1e18
	switch os.Args[1] {
	case "fib":
		begin := time.Now()
		fib(24)
		fmt.Printf("n=24,workers=%d ns/call %.4f\n", workers, float64(time.Since(begin))/calls(24))
	case "loop":
		for i := 0; i < 3; i++ {
			begin := time.Now()
			for r := 0; r < 50; r++ {
				var wg sync.WaitGroup
				wg.Add(1000)
				for k := 0; k < 1000; k++ {
					go wg.Done()
				}
				wg.Wait()
			}
			if t := float64(time.Since(begin)) / 50 / 1000; t < best {
				best = t
			}
		}
		fmt.Printf("n=1000,workers=%d ns/task %.4f\n", workers, best)
	}
}
