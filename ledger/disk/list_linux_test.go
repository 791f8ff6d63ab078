package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
)

// The faults that a ledger must survive, each by its name. TestFaultAtEveryCall… tests
// faults of the file system at every call; TestPowerLoss tests lost power;
// TestFaultLockHolderStopped a stopped holder of the lock; TestOneShots 64 writers;
// TestReadWhileAppending a reader during appends. Faults that only verification finds
// (stolen keys, forks, edits of lines that were read before, checkpoints kept elsewhere)
// are tested with verification.

const listSize = 20

// TestFaultKills kills an append at each of its stages, and retries.
func TestFaultKills(t *testing.T) {
	for _, c := range []struct {
		name, call string
		how        fault
		again      bool // the retry finds the record
		repair     string
	}{
		{"before the lock", "lock " + nameLedger, isKilled, false, ""},
		{"holding the lock", "readat " + nameHead, isKilled, false, ""},
		{"before the write", "writeat " + nameLedger, isKilled, false, ""},
		{"inside the write", "writeat " + nameLedger, isKilledMid, false, ledger.RepairTornTail},
		{"after the write, before the sync", "datasync " + nameLedger, isKilled, true, ""},
		{"before the checkpoint", "create " + nameCheckpoint + ".next", isKilled, true, ""},
		{"inside the checkpoint", "write " + nameCheckpoint + ".next", isKilledMid, true, ""},
		{"before the checkpoint's rename", "rename " + nameCheckpoint + ".next", isKilled, true, ""},
		{"before what is derived", "writeat " + nameOffsets, isKilled, true, ""},
		{"inside what is derived", "writeat " + nameRuns, isKilledMid, true, ""},
		{"before the head", "create " + nameHead, isKilled, true, ""},
		{"inside the head", "writeat " + nameHead, isKilledMid, true, ""},
		{"before the unlock", "unlock " + nameLedger, isKilled, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := sized(t, listSize)
			f := through(t, dir, c.how, first(c.call))
			_, _, err := appendWith(t, dir, f, at(noon), decision("new"))
			if f.reap(); f.hit != c.call {
				t.Fatalf("the call was not made: %v; calls: %q", err, f.calls)
			}
			r := add(t, opened(t, dir, at(noon)), decision("new"))
			if r.Again != c.again {
				t.Errorf("the retry finds the record: %v", r.Again)
			}
			records := fixed(t, dir, at(noon), signer())
			if got := strings.Join(repairs(records), " "); got != c.repair {
				t.Errorf("recorded repairs: %q", got)
			}
		})
	}
	t.Run("before stdout", func(t *testing.T) {
		dir := sized(t, listSize)
		first := add(t, opened(t, dir, at(noon)), decision("new"))
		later := decision("new") // its times, and members that contain times, differ
		later.ResultSHA256, later.Evidence = hash("later"), ledger.Blob{SHA256: hash("later"), Size: 7}
		again := add(t, opened(t, dir, at(noon.Add(time.Hour))), later)
		if !again.Again || again.Index != first.Index || again.Record.Timestamp != first.Record.Timestamp {
			t.Errorf("%+v", again)
		}
		fixed(t, dir, at(noon), signer())
	})
}

// TestFaultCheckpoint: deleted, garbage, of another key, newer than the ledger, and of
// another tree.
func TestFaultCheckpoint(t *testing.T) {
	base := sized(t, listSize)
	forged := func(size int64) []byte {
		c, err := signer().Checkpoint(size, ledger.LeafHash([]byte("other")))
		ok(t, err)
		return c.Note
	}
	stranger, err := successor().Checkpoint(listSize, ledger.LeafHash(nil))
	ok(t, err)
	flipped := bytes.Clone(contents(base, nameCheckpoint))
	if last := &flipped[len(flipped)-10]; *last == 'A' { // base64 still
		*last = 'B'
	} else {
		*last = 'A'
	}
	for _, c := range []struct {
		name string
		note []byte
		want error
	}{
		{"deleted", nil, nil},
		{"empty", []byte{}, nil},
		{"garbage", []byte("garbage\n"), nil},
		{"too long", make([]byte, ledger.MaxCheckpointBytes+1), nil},
		{"newer than the ledger", forged(listSize + 1), ledger.ErrTruncated},
		{"of another tree", forged(listSize), ledger.ErrForked},
		{"of another tree, older", forged(listSize - 3), ledger.ErrForked},
		{"of another key", stranger.Note, ledger.ErrTampered},
		{"with another signature", flipped, ledger.ErrTampered},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := duplicate(t, base)
			before := contents(dir, nameLedger)
			if c.note == nil {
				remove(t, dir, nameCheckpoint)
			} else {
				put(t, dir, nameCheckpoint, c.note)
			}
			for _, anew := range []bool{false, true} {
				if anew {
					remove(t, dir, nameState)
				}
				if c.want == nil {
					break
				}
				_, err := opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
				wants(t, err, c.want)
				_, err = Repair(t.Context(), dir, signer(), at(noon))
				wants(t, err, c.want)
				if !bytes.Equal(contents(dir, nameLedger), before) || !bytes.Equal(contents(dir, nameCheckpoint), c.note) {
					t.Error("something was written")
				}
			}
			if c.want == nil {
				records := fixed(t, dir, at(noon), signer())
				if got := repairs(records); !slices.Equal(got, []string{ledger.RepairCheckpoint}) {
					t.Errorf("recorded repairs: %q", got)
				}
			}
		})
	}
	t.Run("deleted, and a run again", func(t *testing.T) {
		dir := duplicate(t, base)
		remove(t, dir, nameCheckpoint)
		if r := add(t, opened(t, dir, at(noon)), decision(run(3))); !r.Again || r.Index != 3 {
			t.Errorf("%+v", r)
		}
		if got := repairs(verified(t, dir, 0)); !slices.Equal(got, []string{ledger.RepairCheckpoint}) {
			t.Errorf("recorded repairs: %q", got)
		}
	})
	// Without a checkpoint, a head that contradicts the ledger is not believed.
	t.Run("deleted, and a forged head", func(t *testing.T) {
		dir := duplicate(t, base)
		remove(t, dir, nameCheckpoint)
		rehead(t, dir, func(h *head) { h.Roots[0][5] ^= 1 })
		fixed(t, dir, at(noon), signer())
	})
}

// TestFaultTruncatedBelowAPin: a ledger was truncated at the border of a line, and only
// a pin shows it.
func TestFaultTruncatedBelowAPin(t *testing.T) {
	dir, older := sized(t, listSize), sized(t, listSize-1)
	put(t, dir, ledger.PinFolder+"/20", contents(dir, nameCheckpoint))
	fixed(t, dir, at(noon), signer())
	put(t, dir, nameLedger, contents(older, nameLedger))
	_, err := opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
	wants(t, err, ledger.ErrTruncated) // by the head
	remove(t, dir, nameState)
	_, err = opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
	wants(t, err, ledger.ErrTruncated) // by the checkpoint
	remove(t, dir, nameCheckpoint)
	_, err = opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
	wants(t, err, ledger.ErrTruncated) // by the pin
}

// TestFaultEnd: the allowed and the forbidden ends of the ledger.
func TestFaultEnd(t *testing.T) {
	base, longer := sized(t, listSize), sized(t, listSize+2)
	text := contents(base, nameLedger)
	next := contents(longer, nameLedger)[len(text):]
	one := next[:bytes.IndexByte(next, '\n')+1]
	changed := func(b []byte, old, new string) []byte {
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("no %q", old)
		}
		return bytes.Replace(b, []byte(old), []byte(new), 1)
	}
	sig := func(b []byte) []byte { // another signature, which is valid base64
		i := bytes.Index(b, []byte(`"sig":"`)) + 40
		b = bytes.Clone(b)
		if b[i] == 'A' {
			b[i] = 'B'
		} else {
			b[i] = 'A'
		}
		return b
	}
	for _, c := range []struct {
		name   string
		end    []byte
		want   error
		repair string
		size   int // entries after another was appended
	}{
		{"last line feed missing", one[:len(one)-1], nil, ledger.RepairNewline, listSize + 3},
		{"last line feed missing, bad signature", sig(one[:len(one)-1]), nil, ledger.RepairTornTail, listSize + 2},
		{"garbage without a line feed", []byte("garbage"), nil, ledger.RepairTornTail, listSize + 2},
		{"garbage with a line feed", []byte("garbage\n"), ledger.ErrTampered, "", 0},
		{"an empty line", []byte("\n"), ledger.ErrTampered, "", 0},
		{"torn, and then a line", slices.Concat(one[:100], []byte("\n"), next), ledger.ErrTampered, "", 0},
		{"zeroes", make([]byte, 10000), nil, ledger.RepairTornTail, listSize + 2},
		{"a zero-filled hole", slices.Concat(make([]byte, len(one)), next[len(one):]), ledger.ErrTampered, "", 0},
		{"a hole inside a line", slices.Concat(one[:300], make([]byte, len(one)-301), []byte("\n")), ledger.ErrTampered, "", 0},
		{"a line twice", slices.Concat(one, one), ledger.ErrTampered, "", 0},
		{"a line missing", next[len(one):], ledger.ErrTampered, "", 0},
		{"unread lines", next, nil, "", listSize + 3},
		{"a bit of an unread entry", changed(next, `"accepted":true`, `"accepted":truf`), ledger.ErrTampered, "", 0},
		{"an unread entry edited", changed(next, `"policy":"default"`, `"policy":"defauls"`), ledger.ErrTampered, "", 0},
		{"the signature of the last unread seal", slices.Concat(one, sig(next[len(one):])), ledger.ErrTampered, "", 0},
		{"the signature of an unread seal", slices.Concat(sig(one), next[len(one):]), ledger.ErrTampered, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := duplicate(t, base)
			all := slices.Concat(text, c.end)
			put(t, dir, nameLedger, all)
			if c.want == nil {
				records := fixed(t, dir, at(noon), signer())
				if got := strings.Join(repairs(records), " "); got != c.repair {
					t.Errorf("recorded repairs: %q", got)
				}
				if len(records) != c.size {
					t.Errorf("%d entries", len(records))
				}
				return
			}
			_, err := opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
			wants(t, err, c.want)
			if c.name != "the signature of an unread seal" { // verification reads all of them
				_, err = Repair(t.Context(), dir, signer(), at(noon))
				wants(t, err, c.want)
			}
			if !bytes.Equal(contents(dir, nameLedger), all) {
				t.Error("whole lines were changed")
			}
		})
	}
}

// TestEndlessTail: if somebody made a file 1 GiB longer, no append left these bytes. The
// file is refused without being read, and nothing is copied.
func TestEndlessTail(t *testing.T) {
	for name, headless := range map[string]bool{"": false, "without what is derived": true} {
		dir := sized(t, listSize)
		if headless {
			remove(t, dir, nameState)
			ok(t, os.Mkdir(filepath.Join(dir, nameState), 0o755))
		}
		path := filepath.Join(dir, nameLedger)
		const size = 1 << 40 // too large to be read completely
		ok(t, os.Truncate(path, size))
		_, err := opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
		wants(t, err, ledger.ErrTampered)
		_, err = Repair(t.Context(), dir, signer(), at(noon))
		wants(t, err, ledger.ErrTampered)
		_, err = Audit(t.Context(), dir, nil, ledger.AuditOptions{})
		var fault *ledger.Fault
		if !errors.As(err, &fault) || fault.Index != listSize {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, nameQuarantine)); !isNotExist(err) {
			t.Errorf("%s: something was put into quarantine: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			t.Errorf("%s: the ledger was changed: %v", name, err)
		}
	}
}

// TestFaultClockBackwards: the time of a ledger does not go back, and the record says
// how far the clock was behind.
func TestFaultClockBackwards(t *testing.T) {
	dir := sized(t, listSize)
	r := add(t, opened(t, dir, at(noon.Add(-90*time.Second))), decision("new"))
	if r.Record.Timestamp != "2026-03-04T12:00:00.000Z" || r.Record.ClockBehindMS != 90_000 {
		t.Errorf("%+v", r.Record)
	}
	if r = add(t, opened(t, dir, at(noon.Add(time.Second))), decision("later")); r.Record.ClockBehindMS != 0 {
		t.Errorf("%+v", r.Record)
	}
	verified(t, dir, 0)
}

// TestFaultRunAgain: a run has one begun and one end.
func TestFaultRunAgain(t *testing.T) {
	dir := sized(t, 1)
	l := opened(t, dir, at(noon))
	add(t, l, begun("a"))
	if r := add(t, l, begun("a")); !r.Again || r.Index != 1 {
		t.Errorf("%+v", r)
	}
	otherBegun := begun("a")
	otherBegun.Policy = "other"
	_, err := l.Append(t.Context(), otherBegun)
	wants(t, err, ledger.ErrConflict)
	stranger := decision("a")
	stranger.IntentSHA256 = hash("another intent") // an intent that has not begun under this id
	_, err = l.Append(t.Context(), stranger)
	wants(t, err, ledger.ErrConflict)
	add(t, l, decision("a"))
	if r := add(t, l, decision("a")); !r.Again || r.Index != 2 {
		t.Errorf("%+v", r)
	}
	other := decision("a")
	other.Accepted, other.Reasons = false, []string{"NO"}
	_, err = l.Append(t.Context(), other)
	wants(t, err, ledger.ErrConflict)
	d := decision("a")
	failed := ledger.Record{
		Kind: ledger.KindError, RunID: "a", IntentSHA256: d.IntentSHA256, ExecutionMode: d.ExecutionMode, Mode: d.Mode,
		Policy: d.Policy, PolicySHA256: d.PolicySHA256, Kernel: d.Kernel, Code: "RUN_E001",
	}
	_, err = l.Append(t.Context(), failed)
	wants(t, err, ledger.ErrConflict)
	// An effect cannot begin again after its run has ended.
	_, err = l.Append(t.Context(), begun("a"))
	wants(t, err, ledger.ErrEnded)
	_, err = l.Append(t.Context(), otherBegun)
	wants(t, err, ledger.ErrConflict)
	add(t, l, decision("never-begun"))
	_, err = l.Append(t.Context(), begun("never-begun"))
	wants(t, err, ledger.ErrEnded)
	if n := len(verified(t, dir, 0)); n != 4 {
		t.Errorf("%d entries", n)
	}
	// A begun record in the older form is the same beginning.
	former := begun("b")
	former.Former = true
	add(t, l, former)
	if r := add(t, l, begun("b")); !r.Again || r.Index != 4 || !r.Record.Former {
		t.Errorf("%+v", r)
	}
	add(t, l, decision("b"))
	verified(t, dir, 0)
	// A work item is one of the members that both have, and its receipt is that of one end.
	item, state := begun("c"), "blake3:"+strings.Repeat("0", 64)
	item.Work = &ledger.Work{ItemID: "item", Base: state}
	add(t, l, item)
	_, err = l.Append(t.Context(), begun("c"))
	wants(t, err, ledger.ErrConflict)
	_, err = l.Append(t.Context(), decision("c"))
	wants(t, err, ledger.ErrConflict)
	end := decision("c")
	end.Work = &ledger.Work{ItemID: "item", Before: state, After: state, Receipt: state}
	first := add(t, l, end)
	if r := add(t, l, end); !r.Again || r.Index != first.Index || *r.Record.Work != *end.Work {
		t.Errorf("%+v", r)
	}
	end.Work = &ledger.Work{ItemID: "item", Before: state, After: state, Receipt: "blake3:" + strings.Repeat("1", 64)}
	_, err = l.Append(t.Context(), end)
	wants(t, err, ledger.ErrConflict)
	verified(t, dir, 0)
}

// TestFaultReplacedWhileWaiting: ledger.jsonl is replaced while an append waits for its
// lock.
func TestFaultReplacedWhileWaiting(t *testing.T) {
	dir := sized(t, 3)
	l := opened(t, dir, at(noon))
	held, err := l.lock(t.Context())
	ok(t, err)
	got := make(chan error)
	go func() {
		other, err := Open(dir, signer(), at(noon))
		if err == nil {
			_, err = other.Append(t.Context(), decision("new"))
			err = errors.Join(err, other.Close())
		}
		got <- err
	}()
	for openFiles(t, nameLedger) < 3 { // the holder, the waiting file and its copy
		time.Sleep(time.Millisecond)
	}
	copied := contents(dir, nameLedger)
	put(t, dir, "copy", copied)
	ok(t, os.Rename(filepath.Join(dir, "copy"), filepath.Join(dir, nameLedger)))
	ok(t, held.Unlock(), held.Close())
	wants(t, <-got, ErrReplaced)
	if !bytes.Equal(contents(dir, nameLedger), copied) {
		t.Error("something was written")
	}
	fixed(t, dir, at(noon), signer())
}

// TestFaultLinks: a link in the place of the ledger, its folders or files is refused.
func TestFaultLinks(t *testing.T) {
	for _, name := range []string{
		".", nameLedger, ledger.NameOrigin, nameCheckpoint, nameState, nameHead, nameRuns, nameOffsets, nameEdge,
		nameEvidence, nameEvidence + "/sha256", ledger.PinFolder, "tile",
	} {
		t.Run(name, func(t *testing.T) {
			dir := sized(t, 3)
			put(t, dir, nameEvidence+"/sha256/aa/bb", nil)
			put(t, dir, ledger.PinFolder+"/1", nil)
			put(t, dir, "tile/x", nil)
			before := contents(dir, nameLedger)
			from := filepath.Join(dir, name)
			to := filepath.Join(scratch(t), "elsewhere")
			ok(t, os.Rename(from, to), os.Symlink(to, from))
			l, err := Open(dir, signer(), at(noon))
			if err == nil {
				defer l.Close()
				_, err = l.Append(t.Context(), decision("new"))
			}
			if err == nil || !strings.Contains(err.Error(), "link") {
				t.Errorf("the error is %v", err)
			}
			if after := contents(dir, nameLedger); !bytes.Equal(after, before) {
				t.Error("something was written")
			}
			if _, err := Repair(t.Context(), dir, signer(), at(noon)); err == nil && name != nameHead && name != nameRuns && name != nameOffsets {
				t.Error("and Repair takes it")
			}
		})
	}
	for _, name := range []string{nameCheckpoint + ".next", nameHead, edgeName(0), nameEvidence + "/sha256/" + hash("blob").Hex()[:2]} {
		t.Run("nothing is written through "+name, func(t *testing.T) {
			dir := sized(t, 3)
			outside := filepath.Join(scratch(t), "outside")
			ok(t, os.Mkdir(outside, 0o755))
			put(t, outside, "file", []byte("untouched"))
			to := filepath.Join(outside, "file")
			if strings.HasPrefix(name, nameEvidence) {
				to = outside
			}
			remove(t, dir, name)
			ok(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.Symlink(to, filepath.Join(dir, name)))
			l := opened(t, dir, at(noon))
			_, putErr := l.Put([]byte("blob"))
			_, _ = l.Append(t.Context(), decision("new"))
			left, err := os.ReadDir(outside)
			if ok(t, err); len(left) != 1 || string(contents(outside, "file")) != "untouched" {
				t.Error("something was written outside the ledger")
			}
			if to == outside && putErr == nil {
				t.Error("Put follows a link")
			}
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		dir := sized(t, 3)
		remove(t, dir, nameCheckpoint)
		ok(t, syscall.Mkfifo(filepath.Join(dir, nameCheckpoint), 0o600))
		if _, err := opened(t, dir, at(noon)).Append(t.Context(), decision("new")); err == nil {
			t.Error("a pipe is taken for the checkpoint")
		}
	})
}

// TestFaultKeys: a key that others can read, a key of another ledger, a key that does
// not sign yet or no longer signs, and no key.
func TestFaultKeys(t *testing.T) {
	dir, key := keyed(t)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		ok(t, os.Chmod(key, mode))
		if _, err := ReadKey(key); err == nil {
			t.Errorf("a key of mode %o is read", mode)
		}
	}
	ok(t, os.Chmod(key, 0o600))
	s, err := ReadKey(key)
	ok(t, err)
	if _, err := ReadKey(dir); err == nil {
		t.Error("a folder is read as a key")
	}
	text, err := os.ReadFile(key)
	ok(t, err)
	for _, bad := range []string{"", "PRIVATE+KEY+x", string(text[:len(text)-9]), strings.Repeat("x", 5000)} {
		ok(t, os.WriteFile(key, []byte(bad), 0o600))
		if _, err := ReadKey(key); err == nil || len(bad) > 20 && strings.Contains(err.Error(), bad[20:]) {
			t.Errorf("the error of a bad key is %v", err)
		}
	}
	_, err = Open(dir, successor(), at(noon))
	wants(t, err, ledger.ErrWrongKey)
	_, err = Repair(t.Context(), dir, successor(), at(noon))
	wants(t, err, ledger.ErrWrongKey)
	_, err = Read(dir, successor().Verifier())
	wants(t, err, ledger.ErrUnknownKey)
	l, err := Open(dir, s, at(noon))
	ok(t, err)
	_, err = l.Rotate(t.Context(), successor())
	ok(t, err)
	add(t, l, decision("by-the-new-key"))
	ok(t, l.Close())
	_, err = Open(dir, s, at(noon))
	wants(t, err, ledger.ErrWrongKey)
	fixed(t, dir, at(noon), successor())
}

// TestFaultForgedRotation: a rotation without a signature of the key before changes
// nothing, even if everything else fits.
func TestFaultForgedRotation(t *testing.T) {
	for _, fed := range []bool{true, false} {
		t.Run(fmt.Sprintf("line feed %v", fed), func(t *testing.T) {
			dir := sized(t, 5)
			before := contents(dir, ledger.NameOrigin)
			text := contents(dir, nameLedger)
			var tree ledger.Range
			for line := range bytes.Lines(text) {
				l, err := ledger.ParseLine(line[:len(line)-1])
				ok(t, err)
				tree.Append(ledger.LeafHash(l.Entry), nil)
			}
			thief := generate()
			rotation := ledger.Record{Kind: ledger.KindKeyRotation, Key: thief.Verifier().String()}
			for _, rec := range []ledger.Record{rotation, decision("forged")} {
				rec.Stamp(noon, "")
				entry, err := rec.Entry()
				ok(t, err)
				tree.Append(ledger.LeafHash(entry), nil)
				seal, err := thief.Seal(tree.Size, tree.Root())
				ok(t, err)
				text = ledger.Line{Seal: seal, Entry: entry}.Append(text)
				if !fed {
					text = text[:len(text)-1]
					break
				}
			}
			put(t, dir, nameLedger, text)
			for range 2 {
				_, err := Open(dir, thief, at(noon))
				wants(t, err, ledger.ErrWrongKey)
				_, err = opened(t, dir, at(noon)).Append(t.Context(), decision("new"))
				if fed {
					wants(t, err, ledger.ErrTampered)
				} else {
					ok(t, err) // it was torn
				}
				if !bytes.Equal(contents(dir, ledger.NameOrigin), before) {
					t.Fatal("the keys were changed")
				}
				remove(t, dir, nameState)
			}
		})
	}
}

// TestFaultNetworkFileSystem: file systems are recognised by their numbers.
func TestFaultNetworkFileSystem(t *testing.T) {
	for _, magic := range []int64{unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC} {
		if checkFileSystemType(magic&0xffffffff) == nil {
			t.Errorf("%#x is not refused", magic)
		}
	}
	for _, magic := range []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC} {
		ok(t, checkFileSystemType(magic&0xffffffff))
	}
}

// TestFaultTwoHosts: a ledger that another system has used in between.
func TestFaultTwoHosts(t *testing.T) {
	dir := sized(t, listSize)
	elsewhere := at(noon)
	elsewhere.boot = "boot-b"
	for i := range 4 {
		o := at(noon)
		if i%2 == 0 {
			o = elsewhere
		}
		if r := add(t, opened(t, dir, o), decision(run(100+i))); len(r.Warnings) != 1 {
			t.Errorf("warnings: %q", r.Warnings)
		}
	}
	fixed(t, dir, elsewhere, signer())
}

// TestFaultDiskFullAfterTheSync: the record is safe, and the receipt names what could
// not be written.
func TestFaultDiskFullAfterTheSync(t *testing.T) {
	for _, call := range []string{"create " + nameCheckpoint + ".next", "write " + nameCheckpoint + ".next", "writeat " + nameOffsets, "writeat " + nameRuns, "writeat " + edgeName(0), "writeat " + nameHead} {
		t.Run(call, func(t *testing.T) {
			dir := sized(t, listSize)
			f := through(t, dir, diskFills, first(call))
			l, r, err := appendWith(t, dir, f, at(noon), decision("new"))
			ok(t, err)
			if len(r.Warnings) == 0 || f.hit != call {
				t.Errorf("warnings: %q", r.Warnings)
			}
			// The next record is refused, and leaves nothing.
			size := len(contents(dir, nameLedger))
			if _, err := l.Append(t.Context(), decision("refused")); !errors.Is(err, syscall.ENOSPC) || len(contents(dir, nameLedger)) != size {
				t.Errorf("the next append: %v", err)
			}
			f.reap()
			if again := add(t, opened(t, dir, at(noon)), decision("new")); !again.Again || again.Index != r.Index {
				t.Errorf("%+v", again)
			}
			fixed(t, dir, at(noon), signer())
		})
	}
}

// TestFaultEvidence: missing, altered, of another size, too large.
func TestFaultEvidence(t *testing.T) {
	dir := sized(t, 2)
	l := opened(t, dir, at(noon))
	b, err := l.Put([]byte("evidence\n"))
	ok(t, err)
	name, err := blobName(b.SHA256)
	ok(t, err)
	_, err = l.Blob(b)
	ok(t, err)
	for _, altered := range []string{"", "evidencE\n", "evidence\n\n", "evidence"} {
		remove(t, dir, name) // it is read-only
		put(t, dir, name, []byte(altered))
		_, err = l.Blob(b)
		wants(t, err, ledger.ErrBadBlob)
	}
	remove(t, dir, name)
	_, err = l.Blob(b)
	wants(t, err, ledger.ErrNoBlob)
	if _, err := l.Blob(ledger.Blob{SHA256: "sha256:../../../etc/passwd"}); err == nil {
		t.Error("a blob has a name that is no hash")
	}
}

// TestFaultRefusedBeforeTheLock: a record that is too large or has no canonical form.
func TestFaultRefusedBeforeTheLock(t *testing.T) {
	dir := sized(t, 2)
	f := through(t, dir, "", nil)
	l, err := open(f, signer(), at(noon))
	ok(t, err)
	large := decision("large")
	large.Accepted = false
	for i := range 64 {
		large.Reasons = append(large.Reasons, fmt.Sprintf("%064d", i))
	}
	large.Policy = strings.Repeat("x", ledger.MaxEntryBytes)
	odd := decision("a\nb")
	f.calls = nil
	for _, rec := range []ledger.Record{large, odd, {}} {
		if _, err := l.Append(t.Context(), rec); err == nil {
			t.Error("it is recorded")
		}
	}
	if len(f.calls) > 0 {
		t.Errorf("calls were made: %q", f.calls)
	}
}

// TestFaultDiskReallyFull fills a small file system in memory, and empties it again.
func TestFaultDiskReallyFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=400k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	dir := filepath.Join(mount, "ledger")
	_, err := Create(dir, signer(), at(noon))
	ok(t, err)
	l := opened(t, dir, at(noon))
	acknowledged := 0
	for round := range 3 {
		full := false
		for i := range 400 {
			if round == 2 && i == 50 {
				break
			}
			r, err := l.Append(t.Context(), decision(fmt.Sprintf("%d-%d", round, i)))
			if full = full || errors.Is(err, syscall.ENOSPC); err == nil {
				acknowledged++
			} else if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			} else if r.Index != 0 {
				t.Error("an error with a receipt")
			}
		}
		if round < 2 && !full {
			t.Fatal("the disk was never full")
		}
		if contents(dir, namePoison) != nil {
			t.Fatal("poison")
		}
		ok(t, unix.Mount("tmpfs", mount, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%dk", 500+round*1000)))
	}
	if n := len(kinds(fixed(t, dir, at(noon), signer()), ledger.KindDecision)); n != acknowledged+1 {
		t.Errorf("%d acknowledged, %d recorded", acknowledged, n-1)
	}
}

// envUser says that the test runs as an ordinary user.
const envUser = "FIADOR_LEDGER_TEST_USER"

// TestFaultAsUser runs the tests that root cannot run as an ordinary user.
func TestFaultAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("started by root alone")
	}
	dir, err := os.MkdirTemp("", "fiador-test-")
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	ok(t, err, os.WriteFile(dir+"/test", self, 0o755), os.Chmod(dir, 0o755))
	ok(t, os.Mkdir(dir+"/tmp", 0o755), os.Chown(dir+"/tmp", 65534, 65534))
	cmd := exec.Command(dir+"/test", "-test.run=^TestUser", "-test.v")
	cmd.Dir = dir + "/tmp"
	cmd.Env = rehearsal.Env(envUser+"=1", rehearsal.Form(), "TMPDIR="+dir+"/tmp", "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestUserReadOnly")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestUserReadOnly: a ledger that cannot be written is refused before anything depends
// on it. It can be read.
func TestUserReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can write everywhere: TestFaultAsUser starts it")
	}
	for _, name := range []string{".", nameState, nameEvidence, nameLedger} {
		t.Run(name, func(t *testing.T) {
			dir := sized(t, 3)
			put(t, dir, nameEvidence+"/sha256/aa/bb", nil)
			path := filepath.Join(dir, name)
			ok(t, os.Chmod(path, 0o555))
			defer func() { _ = os.Chmod(path, 0o755) }()
			_, err := Open(dir, signer(), at(noon))
			wants(t, err, os.ErrPermission)
			_, err = Repair(t.Context(), dir, signer(), at(noon))
			wants(t, err, os.ErrPermission)
			r, err := Read(dir, signer().Verifier())
			ok(t, err)
			_, err = r.Prove(t.Context(), 1)
			ok(t, err, r.Close())
		})
	}
	// Derived files of another user; here they cannot be written.
	for _, name := range []string{nameHead, nameRuns, nameOffsets} {
		t.Run(name, func(t *testing.T) {
			dir := sized(t, 3)
			ok(t, os.Chmod(filepath.Join(dir, name), 0o444))
			before := contents(dir, nameLedger)
			l := opened(t, dir, at(noon))
			for i := range 3 {
				r, err := l.Append(t.Context(), decision(run(10+i)))
				if err != nil && !bytes.Equal(contents(dir, nameLedger), before) || err == nil && len(r.Warnings) == 0 {
					t.Errorf("%v, warnings: %q", err, r.Warnings)
				}
			}
			ok(t, os.Chmod(filepath.Join(dir, name), 0o644))
			fixed(t, dir, at(noon), signer())
		})
	}
}

// TestCreate: a ledger can be created at a missing path or in an empty folder, and
// nowhere else.
func TestCreate(t *testing.T) {
	parent := scratch(t)
	dir := filepath.Join(parent, "ledger")
	ok(t, os.Mkdir(dir, 0o700))
	_, err := Create(dir, signer(), at(noon))
	ok(t, err)
	fixed(t, dir, at(noon), signer())
	if _, err := Create(dir, signer(), at(noon)); err == nil {
		t.Error("a ledger in the place of another")
	}
	put(t, parent, "file", nil)
	ok(t, os.Mkdir(filepath.Join(parent, "empty"), 0o755), os.Symlink("empty", filepath.Join(parent, "link")))
	for _, name := range []string{"file", "link", "missing/ledger"} {
		if _, err := Create(filepath.Join(parent, name), signer(), at(noon)); err == nil {
			t.Errorf("a ledger in the place of a %s", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(parent, ".ledger-*"))
	if ok(t, err); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestFaultTiles: an append leaves a wrong full tile as it is, and Repair writes it
// again.
func TestFaultTiles(t *testing.T) {
	dir := sized(t, 257)
	good := contents(dir, "tile/0/000")
	bad := bytes.Clone(good)
	bad[77] ^= 1
	for _, content := range [][]byte{bad, nil, bad[:100]} {
		put(t, dir, "tile/0/000", content)
		remove(t, dir, nameState)
		add(t, opened(t, dir, at(noon)), decision("new"))
		if !bytes.Equal(contents(dir, "tile/0/000"), content) {
			t.Error("an append has changed a full tile")
		}
		did, err := Repair(t.Context(), dir, signer(), at(noon))
		if ok(t, err); !bytes.Equal(contents(dir, "tile/0/000"), good) {
			t.Errorf("Repair: %q", did)
		}
		sameDerived(t, dir)
	}
	remove(t, dir, "tile")
	remove(t, dir, nameState)
	add(t, opened(t, dir, at(noon)), decision("again"))
	sameDerived(t, dir)
}

// TestFaultPoison: an append that could be neither made nor undone stops all others.
// Only Repair allows them again.
func TestFaultPoison(t *testing.T) {
	dir := sized(t, listSize)
	f := through(t, dir, syncsFail, nil)
	f.when = func(_ int, call string) bool { return call == "datasync "+nameLedger }
	l, err := open(f, signer(), at(noon))
	ok(t, err)
	_, err = l.Append(t.Context(), decision("new"))
	wants(t, err, syscall.EIO)
	f.reap()
	for range 2 {
		_, err = Open(dir, signer(), at(noon))
		wants(t, err, ErrPoisoned)
	}
	did, err := Repair(t.Context(), dir, signer(), at(noon))
	ok(t, err)
	if !slices.Contains(did, "appends are allowed again") {
		t.Errorf("%q", did)
	}
	fixed(t, dir, at(noon), signer())
}

// TestTwoRepairsAtOnce: two writers find a torn end and a lost checkpoint at once. The
// repair is recorded once.
func TestTwoRepairsAtOnce(t *testing.T) {
	dir := sized(t, listSize)
	text := contents(dir, nameLedger)
	put(t, dir, nameLedger, append(text, text[:50]...))
	remove(t, dir, nameCheckpoint)
	done := make(chan error)
	for i := range 4 {
		l := opened(t, dir, at(noon))
		go func() {
			_, err := l.Append(t.Context(), decision(run(100+i)))
			if i%2 == 1 {
				_, repairErr := Repair(t.Context(), dir, signer(), at(noon))
				err = errors.Join(err, repairErr)
			}
			done <- err
		}()
	}
	for range 4 {
		ok(t, <-done)
	}
	got := repairs(fixed(t, dir, at(noon), signer()))
	slices.Sort(got)
	if !slices.Equal(got, []string{ledger.RepairCheckpoint, ledger.RepairTornTail}) {
		t.Errorf("recorded repairs: %q", got)
	}
}

// TestOffsetsBeyondTheLedger: offsets of entries that do not exist are not read.
func TestOffsetsBeyondTheLedger(t *testing.T) {
	dir := sized(t, listSize)
	put(t, dir, nameOffsets, append(contents(dir, nameOffsets), make([]byte, 800)...))
	add(t, opened(t, dir, at(noon)), decision(run(5)), decision("new"))
	fixed(t, dir, at(noon), signer())
}

// TestNoSecretIsWritten: no file of a ledger contains the key, the host or the folder.
func TestNoSecretIsWritten(t *testing.T) {
	dir, key := keyed(t)
	s, err := ReadKey(key)
	ok(t, err)
	l, err := Open(dir, s, at(noon))
	ok(t, err)
	defer l.Close()
	add(t, l, decision("new"))
	private, err := os.ReadFile(key)
	ok(t, err)
	host, _ := os.Hostname()
	ok(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		if secret := private[len(private)-30 : len(private)-1]; bytes.Contains(text, secret) {
			t.Errorf("%s holds the key", path)
		}
		if bytes.Contains(text, []byte(dir)) || len(host) > 3 && bytes.Contains(text, []byte(host)) {
			t.Errorf("%s names the host or the folder", path)
		}
		return err
	}))
	for line := range bytes.Lines(contents(dir, nameLedger)) {
		if !json.Valid(line) {
			t.Errorf("%s is not JSON", line)
		}
	}
}

// TestRunAgainAfterRotation: the checkpoint of a run was lost, and that of the rotation
// after it. The new key cannot sign the tree that ends with the rotation.
func TestRunAgainAfterRotation(t *testing.T) {
	for _, repair := range []bool{false, true} {
		dir := sized(t, 3)
		checkpoint := contents(dir, nameCheckpoint)
		l := opened(t, dir, at(noon))
		add(t, l, decision("new"))
		_, err := l.Rotate(t.Context(), successor())
		ok(t, err)
		put(t, dir, nameCheckpoint, checkpoint)
		if repair {
			_, err := Repair(t.Context(), dir, successor(), at(noon))
			ok(t, err)
		}
		if r := add(t, l, decision("new")); !r.Again || r.Index != 3 {
			t.Errorf("%+v", r)
		}
		fixed(t, dir, at(noon), successor())
	}
}
