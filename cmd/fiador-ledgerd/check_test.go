package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
)

func (p *place) checkArgs() []string {
	return append([]string{"check"}, p.named()...)
}

// finds runs check, and fails the test unless it has a finding with a word and a text. It
// changes nothing.
func (p *place) finds(t *testing.T, status int, word, text string) {
	t.Helper()
	before := snapshot(t, filepath.Dir(p.dir))
	said := says(t, status, text, p.checkArgs()...)
	if after := snapshot(t, filepath.Dir(p.dir)); after != before {
		t.Errorf("changed from\n%s\nto\n%s", before, after)
	}
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, word) && strings.Contains(line, text) {
			return
		}
	}
	t.Errorf("no %s line has %q:\n%s", word, text, said)
}

// TestCheck: check says what is right and what is wrong, and changes nothing.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.finds(t, 0, "note", "there is no log yet")
	check(t, os.Mkdir(p.dir, 0o700))
	p.finds(t, 0, "note", "there is no log yet")

	r := p.start(server.Config{})
	for i := range 3 {
		r.accepted(begun(fmt.Sprintf("run-%d", i)), r.post(begun(fmt.Sprintf("run-%d", i))))
	}
	r.log(4)
	check(t, r.stop())
	for _, text := range []string{"its root is the one of the first 4 entries", "all 4 entries have their claims", "it signs for", "the last entry is of", "none writes to this log", "can be written to"} {
		p.finds(t, 0, "ok", text)
	}
	p.finds(t, 0, "note", "nobody can know from here whether the disk")

	next := p.nextKey()
	for _, c := range []struct {
		what, text string
		with       func(p *place)
	}{
		{"another key", "another key signs now", func(p *place) { p.key = next }},
		{"an import", "an import into this log has not ended", func(p *place) { check(t, os.WriteFile(filepath.Join(p.dir, storage.NameImport), nil, 0o644)) }},
		{"a claim", "they fit the log up to entry 2, of 4", func(p *place) {
			p.change(claims.Name, func(b []byte) []byte { return bytes.Replace(b, []byte("run-1"), []byte("run-9"), 1) })
		}},
		{"no claims", "they fit the log up to entry 0, of 4", func(p *place) { check(t, os.Remove(filepath.Join(p.dir, claims.Name))) }},
		{"an entry", "do not lead to its root", func(p *place) {
			p.change("log/tile/entries/000.p/4", func(b []byte) []byte { return bytes.Replace(b, []byte("run-1"), []byte("run-9"), 1) })
		}},
		{"no log", "origin.json says that it had", func(p *place) { check(t, os.RemoveAll(filepath.Join(p.dir, "log"))) }},
		{"no bundle", "put the log back from one copy", func(p *place) { check(t, os.RemoveAll(filepath.Join(p.dir, "log/tile/entries"))) }},
		{"an old copy", "it promises 4 entries, and the log has 3", func(p *place) {
			p.change("log/.state/treeState", func(b []byte) []byte { return bytes.Replace(b, []byte(`"size":4`), []byte(`"size":3`), 1) })
			check(t, os.WriteFile(filepath.Join(p.dir, "log/tile/entries/000.p/3"), bundleOf(t, p, 3), 0o644))
		}},
		{"a changed checkpoint", "signature of a known key", func(p *place) {
			p.change("log/checkpoint", func(b []byte) []byte { return bytes.Replace(b, []byte("\n4\n"), []byte("\n3\n"), 1) })
		}},
		{"origin.json", "the records name", func(p *place) {
			p.change("origin.json", func(b []byte) []byte {
				return bytes.Replace(b, []byte(`],"origin"`), []byte(`,{"key":"`+verifierOf(t, next)+`","size":3}],"origin"`), 1)
			})
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			q := *p
			q.t, q.dir = t, filepath.Join(t.TempDir(), "log")
			check(t, os.CopyFS(q.dir, os.DirFS(p.dir)))
			c.with(&q)
			q.finds(t, 2, "BAD", c.text)
		})
	}
	// The clock is a day behind.
	var out bytes.Buffer
	err := checkLog(p.checkArgs()[1:], &out, &printer{to: &out}, func() time.Time { return time.Now().Add(-24 * time.Hour) })
	if err == nil || !strings.Contains(out.String(), "BAD   clock") {
		t.Errorf("%v\n%s", err, &out)
	}
	says(t, 2, "--origin is", append(p.checkArgs(), "--origin", "example.com/other")...)
	says(t, 2, "name one storage", append(p.checkArgs(), "--posix", "")...)
}

// TestCheckBesideServer: check works while a server writes, and finds no fault.
func TestCheckBesideServer(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"folder", "database"} {
		t.Run(storage, func(t *testing.T) {
			p := newPlaceIn(t, storage)
			says(t, 0, "there is no log yet", p.checkArgs()...)
			r := p.process()
			l := &load{promised: map[int64]string{}}
			all := l.run(r, "run", 8)
			for range 12 {
				said := says(t, 0, "one writes to this log now", p.checkArgs()...)
				if strings.Contains(said, "BAD") {
					t.Error(said)
				}
			}
			check(t, r.stop())
			all.Wait()
			said := says(t, 0, "none writes to this log now", p.checkArgs()...)
			for _, text := range []string{"its root is the one of the first", "entries have their claims", "it signs for", "the last entry is of"} {
				if !strings.Contains(said, text) {
					t.Errorf("no %q:\n%s", text, said)
				}
			}
		})
	}
}

func (p *place) change(name string, how func([]byte) []byte) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	b, err := os.ReadFile(name)
	check(p.t, err)
	changed := how(bytes.Clone(b))
	if bytes.Equal(b, changed) {
		p.t.Fatalf("%s: nothing changed", name)
	}
	check(p.t, os.WriteFile(name, changed, 0o644))
}

// bundleOf returns the bundle of the first entries.
func bundleOf(t *testing.T, p *place, n int) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "log/tile/entries/000.p/4"))
	check(t, err)
	size := 0
	for range n {
		size += 2 + int(b[size])<<8 + int(b[size+1])
	}
	return b[:size]
}

func verifierOf(t *testing.T, key string) string {
	t.Helper()
	s, err := where{origin: testOrigin}.signer(key)
	check(t, err)
	return s.Verifier().String()
}
