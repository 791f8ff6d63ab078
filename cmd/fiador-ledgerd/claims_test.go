package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// claimsFile changes the claims of a log whose server has ended.
func (p *place) claimsFile(change func(text []byte) []byte) {
	p.t.Helper()
	name := filepath.Join(p.dir, claims.Name)
	text, err := os.ReadFile(name)
	check(p.t, err)
	check(p.t, os.WriteFile(name, change(text), 0o644))
}

// same starts a server, sends records again, and checks that the log has them all, once.
func (p *place) same(runs, more int) {
	p.t.Helper()
	r := p.start(server.Config{})
	for i := range runs {
		rec := begun(fmt.Sprintf("run-%d", i))
		got := r.post(rec)
		if r.accepted(rec, got); !got.Again {
			p.t.Fatalf("%s is recorded twice", rec.RunID)
		}
	}
	if n := len(r.log(int64(1 + runs + more))); n != 1+runs+more {
		p.t.Fatalf("the log has %d records and not %d", n, 1+runs+more)
	}
	check(p.t, r.stop())
}

func TestClaims(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start(server.Config{})
	const runs = 5
	for i := range runs {
		rec := begun(fmt.Sprintf("run-%d", i))
		r.accepted(rec, r.post(rec))
	}
	check(t, r.stop())
	cut := func(n int) func([]byte) []byte { return func(text []byte) []byte { return text[:len(text)-n] } }
	for _, c := range []struct {
		what   string
		change func([]byte) []byte
	}{
		{"unchanged", cut(0)},
		{"a torn end of indexes", cut(1)},
		{"no last indexes", cut(len(`{"indexes":[5]}` + "\n"))},
		{"a torn claim", cut(len(`{"indexes":[5]}`+"\n") + 3)},
		{"most is gone", func(text []byte) []byte { return text[:len(text)/3] }},
		{"a claim is gone", func(text []byte) []byte { return append(text[:len(text)/2:len(text)/2], text[len(text)/2+40:]...) }},
		{"empty", func([]byte) []byte { return nil }},
		{"zeroes behind", func(text []byte) []byte { return append(text, make([]byte, 5000)...) }},
		{"an endless line behind", func(text []byte) []byte { return append(text, bytes.Repeat([]byte("x"), 1<<20)...) }},
		{"a line behind", func(text []byte) []byte { return append(text, "{}\n"...) }},
		{"indexes of nothing behind", func(text []byte) []byte { return append(text, `{"indexes":[6]}`+"\n"...) }},
		{"no indexes behind", func(text []byte) []byte { return append(text, `{"indexes":[]}`+"\n"...) }},
		{"other indexes", func(text []byte) []byte { return bytes.Replace(text, []byte("[3]"), []byte("[4]"), 1) }},
		{"an old claim behind", func(text []byte) []byte {
			old := begun("run-old")
			old.Stamp(time.Unix(0, 0), "")
			entry, err := old.Entry()
			check(t, err)
			return append(append(text, entry...), '\n')
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p.claimsFile(c.change)
			p.same(runs, 0)
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 25 {
		t.Run(fmt.Sprintf("a changed byte %d", i), func(t *testing.T) {
			p.claimsFile(func(text []byte) []byte {
				text[random.IntN(len(text))] ^= 1 << random.IntN(7)
				return text
			})
			p.same(runs, 0)
		})
	}
	t.Run("another record in the place of one", func(t *testing.T) {
		p.claimsFile(func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(hash("intent")), []byte(hash("other"))) })
		p.same(runs, 0)
	})
	t.Run("a log without a claims file", func(t *testing.T) {
		check(t, os.Remove(filepath.Join(p.dir, claims.Name)))
		p.same(runs, 0)
	})
}

// A claim that changes under a server that runs is never promised. The log has the entry.
func TestClaimsChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start(server.Config{})
	for _, run := range []string{"run-0", "run-1"} {
		r.accepted(begun(run), r.post(begun(run)))
	}
	p.claimsFile(func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(hash("intent")), []byte(hash("other"))) })
	r.refused("a changed claim", r.post(begun("run-0")), 500, "storage")
	for _, run := range []string{"run-0", "run-1"} {
		got := r.retry(begun(run))
		if rec := r.accepted(begun(run), got); !got.Again || rec.IntentSHA256 != hash("intent") {
			t.Errorf("%s: %s", run, got.body)
		}
	}
	if n := len(r.log(3)); n != 3 {
		t.Errorf("the log has %d records", n)
	}
}

// A server that was killed after it wrote claims, and before it added their entries, adds
// them when it starts again.
func TestKilledBeforeAdd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.start(server.Config{})
	r.accepted(begun("run-0"), r.post(begun("run-0")))
	check(t, r.stop())
	var claimed []byte
	for i := range 3 {
		rec := begun(fmt.Sprintf("run-%d", i+1))
		rec.Submitter = "ci"
		rec.Stamp(time.Now(), "")
		entry, err := rec.Entry()
		check(t, err)
		claimed = append(append(claimed, entry...), '\n')
	}
	p.claimsFile(func(text []byte) []byte { return append(text, append(claimed, `{"kind":"torn`...)...) })
	p.same(4, 0)
}

func TestNewLogKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	check(t, p.start(server.Config{}).stop())
	whole := p.dir
	for _, c := range []struct {
		what string
		gone []string
	}{
		{"before origin.json", []string{"origin.json"}},
		{"before the genesis was added", []string{"origin.json", "log"}},
		{"before the genesis was claimed", []string{"origin.json", "log", "claims.jsonl"}},
		{"before anything but the lock", []string{"origin.json", "log", "claims.jsonl", "evidence"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p.dir = filepath.Join(t.TempDir(), "log")
			check(t, os.CopyFS(p.dir, os.DirFS(whole)))
			for _, name := range c.gone {
				check(t, os.RemoveAll(filepath.Join(p.dir, name)))
			}
			if len(c.gone) == 2 { // the claim is there, and has no index
				p.claimsFile(func(text []byte) []byte { return text[:bytes.Index(text, []byte(indexesOf))] })
			}
			p.same(0, 0)
		})
	}
}
