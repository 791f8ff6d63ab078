package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// killedAt rotates a key and kills the process at a step.
func killedAt(step string) int {
	log := &printer{to: os.Stderr}
	storage.Quiet(nothing)
	err := rotateKey(os.Args[2:], os.Stdout, log, func(name string) {
		if name == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	log.Printf("%v", err)
	return 3
}

func (p *place) rotation(next string) []string {
	return append([]string{"rotate-key"}, p.named("--next", next)...)
}

// rotated returns the place with the next key.
func (p *place) rotated(next string, size int64) *place {
	p.t.Helper()
	signer, err := disk.ReadKey(next)
	check(p.t, err)
	after := *p
	after.key, after.keys = next, append(p.keys[:len(p.keys):len(p.keys)], ledger.KeyFrom{Size: size, Key: signer.Verifier()})
	return &after
}

// TestRotateKey: a client that knows the first key goes on across the rotation, and old promises
// are kept. A record that is sent again is acknowledged by the later key.
func TestRotateKey(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"folder", "database"} {
		t.Run(storage, func(t *testing.T) { rotateTwice(t, newPlaceIn(t, storage)) })
	}
}

func rotateTwice(t *testing.T, p *place) {
	server := p.process("--public-read")
	a, b := server.machine(t, "ci"), server.machine(t, "ci")
	a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one", "--receipt", "one.tlog-proof")
	b.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "two", "--receipt", "two.tlog-proof", "--receipt-wait", "1ns")
	b.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "three")
	first := server.post(begun("run-1"))
	server.accepted(begun("run-1"), first)

	next := p.nextKey()
	says(t, 2, "a server writes to the log", p.rotation(next)...)
	check(t, server.stop())
	says(t, 2, "the same key", p.rotation(p.key)...)
	says(t, 0, "the key signs from 7 entries on", p.rotation(next)...)
	says(t, 0, "the key signs from 7 entries on", p.rotation(next)...) // nothing is left to do
	says(t, 2, "has another key now", p.serve()...)

	q := p.rotated(next, 7)
	server = q.process("--public-read")
	a.url, b.url = server.url, server.url
	records := server.log(7)
	if n := len(records); n != 7 || records[5].Kind != ledger.KindKeyRotation || records[6].Kind != ledger.KindRepair {
		t.Errorf("%d records", n)
	}
	again := server.post(begun("run-1"))
	server.accepted(begun("run-1"), again)
	if !again.Again || again.Index != first.Index || again.Entry != first.Entry || again.Ack == first.Ack {
		t.Errorf("again: %s", again.body)
	}
	b.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "three") // its state folder has the first ack
	a.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "four", "--receipt", "four.tlog-proof")
	late := server.machine(t, "ci")
	late.key = q.keys.Now().String()
	late.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "one")
	for _, m := range []*machine{a, b, late} {
		m.says(0, "CLEAN", "ledger", "verify", "--tiles", "--evidence", "--key", m.key)
	}
	a.says(0, "3 kept, 0 lost", "ledger", "check-receipts", gathered(t, a, b), "--key", a.key)
	check(t, server.stop())
	q.fsck()

	// Once more, by the second key.
	third := q.nextKey()
	says(t, 2, "has signed this log before", q.rotation(p.key)...)
	says(t, 0, "the key signs from 10 entries on", q.rotation(third)...)
	server = q.rotated(third, 10).process("--public-read")
	a.url, late.url = server.url, server.url
	for _, m := range []*machine{a, late} {
		m.says(0, "CLEAN", "ledger", "verify", "--key", m.key)
		m.says(0, `"accepted":true`, "run", "intent.json", "--run-id", "four")
	}
	server.log(10)
}

// TestRotateKeyKilled: whatever step a rotation is killed at, one of the two keys works, and the
// other one's server names the key that is needed. The rotation can be started again.
func TestRotateKeyKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step string
		next bool // the new key is the key of the log
	}{{"covered", false}, {"planned", false}, {"claimed", false}, {"added", true}, {"recorded", true}, {"begun", true}} {
		for _, how := range []string{"serve", "rotate", "other", "database"} {
			t.Run(c.step+" "+how, func(t *testing.T) {
				p := newPlaceIn(t, how)
				r := p.start(server.Config{})
				first := r.post(begun("run-1"))
				r.accepted(begun("run-1"), first)
				check(t, r.stop())
				next := p.nextKey()
				cmd := exec.Command(os.Args[0], p.rotation(next)...)
				cmd.Env = append(os.Environ(), "FIADOR_LEDGERD_KILL="+c.step)
				if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 {
					t.Fatalf("not killed: %v\n%s", err, out)
				}
				if c.step == "added" || c.step == "planned" {
					says(t, 0, "a rotation was interrupted", append([]string{"check"}, p.args()[:len(p.args())-4]...)...)
				}
				q := p.rotated(next, 4)
				works, fails, size := p, q, int64(2)
				if c.next || how == "database" && c.step == "added" {
					works, fails, size = q, p, 4
				}
				switch how {
				case "other":
					says(t, 2, works.keys.Now().String(), fails.serve()...)
				case "rotate":
					says(t, 0, "the key signs from 4 entries on", p.rotation(next)...)
					works, size = q, 4
				}
				again := works.process("--public-read")
				again.log(size)
				got := again.retry(begun("run-1"))
				if again.accepted(begun("run-1"), got); !got.Again || got.Entry != first.Entry {
					t.Errorf("again: %s", got.body)
				}
				rec := begun("run-2")
				if got := again.post(rec); got.Index != size {
					t.Errorf("index %d", got.Index)
				}
				again.accepted(rec, again.post(rec))
				again.log(size + 1)
				m := again.machine(t, "ci")
				m.says(0, "CLEAN", "ledger", "verify", "--key", m.key)
				check(t, again.stop())
				works.fsck()
				if names, err := filepath.Glob(filepath.Join(p.dir, "*.json")); err != nil || strings.Contains(fmt.Sprint(names), storage.NameRotation) {
					t.Errorf("left: %v, %v", names, err)
				}
			})
		}
	}
}

// TestRotateKeyRefused: nothing changes where a rotation is refused.
func TestRotateKeyRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	next := p.nextKey()
	says(t, 2, "there is no log yet", p.rotation(next)...)
	if _, err := os.Stat(p.dir); err == nil {
		t.Error("a log was made")
	}
	check(t, os.Mkdir(p.dir, 0o700))
	says(t, 2, "there is no log yet", p.rotation(next)...)
	check(t, p.start(server.Config{}).stop())
	before := snapshot(t, p.dir)
	other := newPlace(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--next is missing", p.rotation(next)[:7]},
		{"no such file", p.rotation(next + "x")},
		{"has another key now", append(p.rotation(next), "--key", other.key)},
		{"--origin is", append(p.rotation(next), "--origin", "example.com/other")},
	} {
		says(t, 2, c.want, c.args...)
	}
	foreign := filepath.Join(t.TempDir(), "key")
	says(t, 0, "", "key", "--origin", "example.com/other", "--key", foreign)
	says(t, 2, "--origin is", p.rotation(foreign)...)
	if after := snapshot(t, p.dir); after != before {
		t.Errorf("changed from\n%s\nto\n%s", before, after)
	}
}

// TestRotateKeyDamaged: the old key seals no entries that do not lead to its checkpoint.
func TestRotateKeyDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	next := p.nextKey()
	check(t, p.start(server.Config{}).stop())
	p.grow(300)
	check(t, p.start(server.Config{}).stop())
	p.change("log/tile/entries/000", func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"old-9"`), []byte(`"old-x"`), 1)
	})
	says(t, 2, "do not lead to its checkpoint", p.rotation(next)...)
	if _, err := os.Stat(filepath.Join(p.dir, storage.NameRotation)); err == nil {
		t.Error("a rotation was planned")
	}
}

// TestRotateKeyStandby: a server that waits with the old key answers readers, and records with
// 503, after another key signs the log.
func TestRotateKeyStandby(t *testing.T) { over(t, testRotateKeyStandby) }

func testRotateKeyStandby(t *testing.T, p *place) {
	next := p.nextKey()
	first := p.process()
	first.accepted(begun("run-1"), first.retry(begun("run-1")))
	second := p.process() // with the old key
	check(t, second.signal(syscall.SIGSTOP))
	check(t, first.stop())
	says(t, 0, "the key signs", p.rotation(next)...)
	check(t, second.signal(syscall.SIGCONT))
	second.waitFor("has another key now")
	second.refused("a record", second.post(begun("run-2")), 503, "busy")
	if got := second.get("/origin.json"); got.status != 200 {
		t.Errorf("origin.json: %d", got.status)
	}
}
