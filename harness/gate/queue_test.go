package gate

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// TestQueue: a server gets every line whole and in the order of its writer, also one that reads
// nothing until its pipe is full in the middle of a line.
func TestQueue(t *testing.T) {
	const lines = 40
	for _, size := range []int{1, 5000, 70_000, 300_000} {
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		q := newQueue(to)
		go q.drain()
		push := func(who, n int) {
			q.push(append(bytes.Repeat([]byte{byte('a' + who)}, size), fmt.Sprintf(" %d\n", n)...))
		}
		push(0, 0)
		push(1, 0) // no one has read yet
		var writers sync.WaitGroup
		for who := range 2 {
			writers.Go(func() {
				for n := 1; n < lines; n++ {
					push(who, n)
				}
			})
		}
		r := newReader(from)
		for next := [2]int{}; next != [2]int{lines, lines}; {
			line, err := r.next()
			if err != nil || len(line) < size {
				t.Fatalf("size %d: %v after %v: %q", size, err, next, line)
			}
			who := int(line[0] - 'a')
			want := fmt.Sprintf("%s %d\n", bytes.Repeat(line[:1], size), next[who])
			if string(line) != want {
				t.Fatalf("size %d: line %d of %d is not whole", size, next[who], who)
			}
			next[who]++
		}
		writers.Wait()
		q.close()
		if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
			t.Errorf("size %d: more than was pushed: %q, %v", size, rest, err)
		}
	}
}
