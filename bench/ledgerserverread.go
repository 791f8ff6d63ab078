package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// reading times commands that read the log of the server.
func (m *ledgerServed) reading(ctx context.Context, s *ledgerScene) error {
	if missing := int64(m.sizes.entries) - m.records - 1; missing > 0 {
		n, _, err := s.crowd(ctx, ledgerdWay, goalServerAt, time.Hour, missing)
		if m.records += n; err != nil {
			return err
		}
	}
	if err := s.holds(ctx, m.records); err != nil {
		return err
	}
	b, err := newBook(ctx, filepath.Join(s.dir, "book"), int(m.records)+1)
	if err != nil {
		return err
	}
	state := filepath.Join(s.dir, "state")
	of := func(name, url string, args ...string) command {
		return command{name, slices.Concat([]string{"env", "XDG_STATE_HOME=" + state, s.t.fiador, "ledger"}, args, []string{"--ledger", url, "--key", s.key}), 0}
	}
	verify, list := []string{"verify"}, []string{"list", "--format", "jsonl"}
	inFolder := func(name string, args []string) command {
		return command{name, slices.Concat([]string{s.t.fiador, "ledger"}, args, []string{"--ledger", b.dir}), 0}
	}
	for range m.sizes.reads {
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
		if m.reads == nil {
			m.reads = round
			continue
		}
		for i := range round {
			m.reads[i].samples = append(m.reads[i].samples, round[i].samples...)
		}
	}
	return m.counting(ctx, s, of, state)
}

// counting counts the requests of verify: first, again, and after some more records.
func (m *ledgerServed) counting(ctx context.Context, s *ledgerScene, of func(name, url string, args ...string) command, state string) error {
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
	for i, what := range []string{"first", "second, nothing new", fmt.Sprintf("third, %d more entries", m.sizes.more)} {
		if i == 2 {
			n, _, err := s.crowd(ctx, ledgerdWay, 1, time.Hour, int64(m.sizes.more))
			if m.records += n; err != nil {
				return err
			}
			if err := s.holds(ctx, m.records); err != nil {
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
		m.asked = append(m.asked, a)
	}
	return nil
}
