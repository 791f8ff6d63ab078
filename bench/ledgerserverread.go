package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// servedLog has the measurements of commands that read a log of a server.
type servedLog struct {
	entries  int
	imported time.Duration // what the import took; 0: it had not ended after the limit
	reads    []series
	asked    []asking
}

// asking is what a verify asked a server for.
type asking struct {
	what                   string
	requests, tiles, again int // tiles are full ones; again, those that the verify before had asked for
}

// reading times commands that read logs of the server.
func (m *ledgerServed) reading(ctx context.Context, s *ledgerScene) error {
	for _, entries := range m.sizes.entries {
		l := &servedLog{entries: entries}
		m.logs = append(m.logs, l)
		if err := l.measure(ctx, s, m.sizes); err != nil {
			return fmt.Errorf("%d entries: %w", entries, err)
		}
	}
	return nil
}

// measure writes a ledger into a folder, imports it into a log of its own, and reads both.
func (l *servedLog) measure(ctx context.Context, s *ledgerScene, z serverSizes) (err error) {
	dir := s.file(fmt.Sprintf("book-%d", l.entries))
	b, err := newBook(ctx, dir, l.entries, s.blobs...)
	if err != nil {
		return err
	}
	if err := l.importing(ctx, s, b, dir+"-log", z.limit); err != nil || l.imported == 0 {
		return err
	}
	stop, err := s.serve(b.key, "--posix", dir+"-log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	state := s.file("state")
	of := func(name, url string, args ...string) command {
		return command{name, slices.Concat([]string{"env", "XDG_STATE_HOME=" + state, s.t.fiador, "ledger"}, args, []string{"--ledger", url, "--key", s.key}), 0}
	}
	if err := l.commands(ctx, s, z, of, b.dir, state); err != nil {
		return err
	}
	return l.counting(ctx, s, z.more, of, state)
}

// importing moves a ledger from its folder to a new log.
func (l *servedLog) importing(ctx context.Context, s *ledgerScene, b *book, log string, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(within, s.ledgerd, "import", b.dir, "--posix", log, "--origin", bookOrigin, "--key", b.key, "--url", "https://log.example.com")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	switch took := time.Since(start); {
	case err == nil:
		l.imported = took
	case ctx.Err() != nil || within.Err() == nil:
		return fmt.Errorf("import: %w\n%s", err, out)
	}
	return nil
}

// commands times commands that read the log and the folder.
func (l *servedLog) commands(ctx context.Context, s *ledgerScene, z serverSizes, of func(name, url string, args ...string) command, dir, state string) error {
	verify, list := []string{"verify"}, []string{"list", "--format", "jsonl"}
	inFolder := func(name string, args []string) command {
		return command{name, slices.Concat([]string{s.t.fiador, "ledger"}, args, []string{"--ledger", dir}), 0}
	}
	for range z.reads {
		var round []series
		for _, group := range [][]command{
			{of(verifyFirst, s.url, verify...), of(verifyAgain, s.url, verify...)}, {of(listFirst, s.url, list...), of(listAgain, s.url, list...)},
			{inFolder(verifyFolder, verify), inFolder(listFolder, list)},
		} {
			if err := os.RemoveAll(state); err != nil {
				return err
			}
			for _, c := range group {
				x, err := s.once(ctx, s.t, c)
				if err != nil {
					return err
				}
				round = append(round, series{c.name, []sample{x}})
			}
		}
		if l.reads == nil {
			l.reads = round
			continue
		}
		for i := range round {
			l.reads[i].samples = append(l.reads[i].samples, round[i].samples...)
		}
	}
	return nil
}

// counting counts the requests of verify: first, again, and after some more records.
func (l *servedLog) counting(ctx context.Context, s *ledgerScene, more int, of func(name, url string, args ...string) command, state string) error {
	to, err := url.Parse(s.url)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	asked, before := map[string]int{}, map[string]bool{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	counter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	defer counter.Close()
	if err := os.RemoveAll(state); err != nil {
		return err
	}
	for i, what := range []string{"first", "second, nothing new", fmt.Sprintf("third, %d more entries", more)} {
		if i == 2 {
			if _, _, err := s.crowd(ctx, ledgerdWay, 1, time.Hour, int64(more)); err != nil {
				return err
			}
			if err := s.holds(ctx, int64(l.entries-1+more)); err != nil {
				return err
			}
		}
		mu.Lock()
		clear(asked)
		mu.Unlock()
		if _, err := s.once(ctx, s.t, of(what, counter.URL, "verify")); err != nil {
			return err
		}
		a := asking{what: what}
		mu.Lock()
		now := maps.Clone(asked) // a request may still end
		mu.Unlock()
		for path, n := range now {
			a.requests += n
			if !strings.HasPrefix(path, "/tile/") || strings.Contains(path, ".p/") {
				continue
			}
			a.tiles++
			if before[path] {
				a.again++
			}
			before[path] = true
		}
		l.asked = append(l.asked, a)
	}
	return nil
}
