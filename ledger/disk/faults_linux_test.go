package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
)

// fault is the fault of a call.
type fault string

const (
	failsEIO    fault = "EIO"
	failsENOSPC fault = "ENOSPC"
	isShort     fault = "short write"                // half of the data is written
	isKilled    fault = "kill"                       // before the call
	isKilledMid fault = "kill inside"                // half of the data is written
	diskDies    fault = "EIO from here on"           // reading too
	diskFills   fault = "ENOSPC from here on"        // for calls that need space
	syncsFail   fault = "EIO of syncs and truncates" // from here on
)

// faulty puts a fault into one call on a folder. After a kill all calls do nothing; then
// reap closes the files, as the kernel does.
type faulty struct {
	files
	fault   fault
	when    func(n int, call string) bool
	n       int
	calls   []string
	hit     string // the call that had the fault
	dead    bool
	persist bool
	open    []file
}

var errKilled = errors.New("killed")

func isWrite(op string) bool { return op == "write" || op == "writeat" }

// call returns the fault of a call: an error, or half a write.
func (f *faulty) call(op, name string) (half bool, err error) {
	if f.dead {
		return false, errKilled
	}
	f.n++
	call := op + " " + name
	f.calls = append(f.calls, call)
	now := f.hit == "" && f.when != nil && f.when(f.n, call)
	if (f.fault == isShort || f.fault == isKilledMid) && !isWrite(op) {
		now = false
	}
	f.persist = f.persist || now // from this call on
	if f.persist {
		switch f.fault {
		case diskFills:
			now = isWrite(op) || op == "create" || op == "mkdir"
		case syncsFail:
			now = op == "sync" || op == "datasync" || op == "truncate"
		case diskDies:
			now = true
		}
	}
	if !now {
		return false, nil
	}
	if f.hit == "" {
		f.hit = call
	}
	switch f.fault {
	case diskFills:
		return false, syscall.ENOSPC
	case diskDies, syncsFail:
		return false, syscall.EIO
	case failsEIO:
		return false, syscall.EIO
	case failsENOSPC:
		return false, syscall.ENOSPC
	case isShort:
		return true, nil
	case isKilledMid:
		f.dead = true
		return true, errKilled
	}
	f.dead = true
	return false, errKilled
}

// reap closes the files that a killed process had open.
func (f *faulty) reap() {
	for _, o := range f.open {
		_ = o.Close()
	}
}

func (f *faulty) Open(name string, flag int) (file, error) {
	op := "open"
	if flag&os.O_CREATE != 0 {
		op = "create"
	}
	if _, err := f.call(op, name); err != nil {
		return nil, err
	}
	o, err := f.files.Open(name, flag)
	if err != nil {
		return nil, err
	}
	f.open = append(f.open, o)
	return &faultyFile{o, f, name}, nil
}

func (f *faulty) Lstat(name string) (fs.FileInfo, error) {
	if _, err := f.call("lstat", name); err != nil {
		return nil, err
	}
	return f.files.Lstat(name)
}

func (f *faulty) Mkdir(name string) error {
	if _, err := f.call("mkdir", name); err != nil {
		return err
	}
	return f.files.Mkdir(name)
}

func (f *faulty) Rename(from, to string) error {
	if _, err := f.call("rename", from); err != nil {
		return err
	}
	return f.files.Rename(from, to)
}

func (f *faulty) Remove(name string) error {
	if _, err := f.call("remove", name); err != nil {
		return err
	}
	return f.files.Remove(name)
}

func (f *faulty) SyncDir(name string) error {
	if _, err := f.call("sync", name); err != nil {
		return err
	}
	return f.files.SyncDir(name)
}

func (f *faulty) ReadDir(name string) ([]string, error) {
	if _, err := f.call("readdir", name); err != nil {
		return nil, err
	}
	return f.files.ReadDir(name)
}

func (f *faulty) Close() error { return f.files.Close() }

type faultyFile struct {
	file
	f    *faulty
	name string
}

func (o *faultyFile) Read(b []byte) (int, error) {
	if _, err := o.f.call("read", o.name); err != nil {
		return 0, err
	}
	return o.file.Read(b)
}

func (o *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if _, err := o.f.call("readat", o.name); err != nil {
		return 0, err
	}
	return o.file.ReadAt(b, at)
}

func (o *faultyFile) Write(b []byte) (int, error) {
	half, err := o.f.call("write", o.name)
	return halved(b, half, err, o.file.Write)
}

func (o *faultyFile) WriteAt(b []byte, at int64) (int, error) {
	half, err := o.f.call("writeat", o.name)
	return halved(b, half, err, func(b []byte) (int, error) { return o.file.WriteAt(b, at) })
}

func halved(b []byte, half bool, err error, write func([]byte) (int, error)) (int, error) {
	if half {
		n, _ := write(b[:len(b)/2])
		if err == nil {
			err = syscall.ENOSPC
		}
		return n, err
	}
	if err != nil {
		return 0, err
	}
	return write(b)
}

func (o *faultyFile) Stat() (fs.FileInfo, error) {
	if _, err := o.f.call("stat", o.name); err != nil {
		return nil, err
	}
	return o.file.Stat()
}

func (o *faultyFile) Truncate(size int64) error {
	if _, err := o.f.call("truncate", o.name); err != nil {
		return err
	}
	return o.file.Truncate(size)
}

func (o *faultyFile) Chmod(mode fs.FileMode) error {
	if _, err := o.f.call("chmod", o.name); err != nil {
		return err
	}
	return o.file.Chmod(mode)
}

func (o *faultyFile) Sync() error {
	if _, err := o.f.call("sync", o.name); err != nil {
		return err
	}
	return o.file.Sync()
}

func (o *faultyFile) Datasync() error {
	if _, err := o.f.call("datasync", o.name); err != nil {
		return err
	}
	return o.file.Datasync()
}

func (o *faultyFile) Lock(ctx context.Context) error {
	if _, err := o.f.call("lock", o.name); err != nil {
		return err
	}
	return o.file.Lock(ctx)
}

func (o *faultyFile) Unlock() error {
	if _, err := o.f.call("unlock", o.name); err != nil {
		return err
	}
	return o.file.Unlock()
}

// Close closes the file, whatever error it returns.
func (o *faultyFile) Close() error {
	if _, err := o.f.call("close", o.name); err != nil {
		if !o.f.dead {
			_ = o.file.Close()
		}
		return err
	}
	return o.file.Close()
}

func through(t testing.TB, dir string, how fault, when func(int, string) bool) *faulty {
	t.Helper()
	folder, err := openFolder(dir)
	ok(t, err)
	f := &faulty{files: folder, fault: how, when: when}
	t.Cleanup(func() { f.reap(); _ = folder.Close() })
	return f
}

// first is the first call of a name.
func first(call string) func(int, string) bool {
	return func(_ int, c string) bool { return c == call }
}

// eachCall calls do for every call that do makes, and for every fault; do gets a folder
// in which that call has that fault. In the short form each call has every fourth fault:
// each fault begins one call later than the fault before.
func eachCall(t *testing.T, faults []fault, do func(t *testing.T, how fault, when func(int, string) bool) *faulty) {
	total, stride := 0, rehearsal.Stride(4)
	for k, how := range faults {
		t.Run(string(how), func(t *testing.T) {
			calls := 0
			for n := 1 + k%stride; ; n += stride {
				last := true
				name := "none"
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					f := do(t, how, func(i int, _ string) bool { return i == n })
					if last = f.n < n; f.hit != "" {
						calls, name = calls+1, f.hit
					}
					if t.Failed() {
						t.Logf("%s at call %d (%s)", how, n, name)
					}
				})
				if t.Failed() || last {
					break
				}
			}
			total += calls
		})
	}
	if total == 0 {
		t.Error("no call had a fault")
	}
	t.Logf("%d faults", total)
}

var (
	singleFaults = []fault{failsEIO, failsENOSPC, isShort, isKilled, isKilledMid}
	allFaults    = slices.Concat(singleFaults, []fault{diskDies, diskFills, syncsFail})
)

// appendWith appends through a folder with a fault.
func appendWith(t *testing.T, dir string, f *faulty, o Options, rec ledger.Record) (*Log, ledger.Receipt, error) {
	t.Helper()
	l, err := open(f, signer(), o)
	if err != nil {
		return nil, ledger.Receipt{}, err
	}
	r, err := l.Append(t.Context(), rec)
	return l, r, err
}

// TestFaultAtEveryCall puts every fault into every call of an append. The appends fill no
// tile, fill the first tile, or come after it, with a head or without one.
func TestFaultAtEveryCall(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	for _, c := range []struct {
		size int
		head bool
	}{{254, true}, {255, true}, {256, true}, {255, false}} {
		t.Run(fmt.Sprintf("size %d head %v", c.size, c.head), func(t *testing.T) {
			faults := singleFaults
			if c.size == 255 && c.head {
				faults = allFaults
			}
			eachCall(t, faults, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
				dir := sized(t, c.size)
				if !c.head {
					remove(t, dir, nameHead)
				}
				return faultInAppend(t, dir, how, when)
			})
		})
	}
}

func faultInAppend(t *testing.T, dir string, how fault, when func(int, string) bool) *faulty {
	before := len(contents(dir, nameLedger))
	f := through(t, dir, how, when)
	rec := decision("new")
	l, r, err := appendWith(t, dir, f, at(noon), rec)
	killed := f.dead
	poisoned := contents(dir, namePoison) != nil
	if l != nil && !killed && (l.stopped != nil || poisoned) {
		if how != diskDies && how != syncsFail {
			t.Errorf("poison after %s", f.hit)
		}
		f.fault = ""
		_, err := l.Append(t.Context(), decision("poisoned"))
		wants(t, err, ErrPoisoned)
	} else if err != nil && !killed && len(contents(dir, nameLedger)) != before {
		t.Errorf("after the error %v the ledger has another size", err)
	}
	f.reap()
	if poisoned {
		_, err := Open(dir, signer(), at(noon))
		wants(t, err, ErrPoisoned)
		_, err = Repair(t.Context(), dir, signer(), at(noon))
		ok(t, err)
	}
	there := len(contents(dir, nameLedger)) > before
	again := opened(t, dir, at(noon))
	second, retryErr := again.Append(t.Context(), rec)
	if retryErr != nil {
		t.Fatalf("retry after %v: %v", err, retryErr)
	}
	if err == nil && (!second.Again || second.Index != r.Index) {
		t.Errorf("acknowledged as entry %d, and then not there: %+v", r.Index, second)
	}
	if second.Again && !there || second.Checkpoint.Size <= second.Index {
		t.Errorf("the retry's receipt is wrong: %+v", second)
	}
	records := fixed(t, dir, at(noon), signer())
	if !holds(records, rec) || holds(records, decision("poisoned")) {
		t.Error("the record is not there, or another one is")
	}
	for _, what := range repairs(records) {
		if what == ledger.RepairTornTail && killed || what == ledger.RepairNewline && killed || what == ledger.RepairTornTail && poisoned {
			continue
		}
		t.Errorf("a %s was repaired after %v", what, err)
	}
	return f
}

// TestFaultAtEveryCallOfRecovery does the same for the append that repairs the rest of a
// killed one: a torn end, or a line without its line feed, and no checkpoint.
func TestFaultAtEveryCallOfRecovery(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	for _, left := range []string{"torn", "no line feed", "unsynced"} {
		t.Run(left, func(t *testing.T) {
			eachCall(t, allFaults, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
				dir := sized(t, 20)
				before := len(contents(dir, nameLedger))
				other := sized(t, 20)
				add(t, opened(t, other, at(noon)), decision("interrupted"))
				text := contents(other, nameLedger)
				switch left {
				case "torn":
					text = text[:before+500]
				case "no line feed":
					text = text[:len(text)-1]
				}
				put(t, dir, nameLedger, text)
				f := through(t, dir, how, when)
				rec := decision("new")
				l, r, err := appendWith(t, dir, f, at(noon), rec)
				poisoned := contents(dir, namePoison) != nil
				f.reap()
				if poisoned {
					if how != diskDies && how != syncsFail {
						t.Errorf("poison after %s", f.hit)
					}
					_, err := Repair(t.Context(), dir, signer(), at(noon))
					ok(t, err)
				} else if err != nil && !f.dead && l != nil && l.stopped == nil && strings.Contains(string(contents(dir, nameLedger)), `"new"`) {
					t.Errorf("after the error %v the record is there", err)
				}
				second := add(t, opened(t, dir, at(noon)), rec)
				if err == nil && (!second.Again || second.Index != r.Index) {
					t.Errorf("acknowledged as entry %d, and then not there: %+v", r.Index, second)
				}
				records := fixed(t, dir, at(noon), signer())
				if !holds(records, rec) {
					t.Error("the record is not there")
				}
				if want := left != "torn"; holds(records, decision("interrupted")) != want {
					t.Errorf("the interrupted record is there: %v", !want)
				}
				return f
			})
		})
	}
}

// TestFaultAtEveryCallOfPut: a blob that Put has promised exists. A blob without a
// promise never counts as a synced one.
func TestFaultAtEveryCallOfPut(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	base := sized(t, 2)
	blob := []byte(strings.Repeat("evidence\n", 1000))
	for _, there := range []string{"nothing", "the blob", "an altered blob"} {
		t.Run(there, func(t *testing.T) {
			eachCall(t, allFaults, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
				dir := duplicate(t, base)
				name, err := blobName(hash(string(blob)))
				ok(t, err)
				switch there {
				case "the blob":
					put(t, dir, name, blob)
				case "an altered blob":
					put(t, dir, name, blob[1:])
				}
				f := through(t, dir, how, nil)
				l, err := open(f, signer(), at(noon))
				ok(t, err)
				f.n, f.when = 0, when
				b, err := l.Put(blob)
				if err == nil {
					if has, err := opened(t, dir, at(noon)).Blob(b); err != nil || string(has) != string(blob) {
						t.Errorf("a promised blob: %v", err)
					}
				} else if strings.HasPrefix(f.hit, "sync "+nameEvidence) && !f.dead && how != diskDies && contents(dir, name) != nil && there == "nothing" {
					t.Error("a blob whose sync failed has its name")
				}
				f.reap()
				again := opened(t, dir, at(noon))
				if _, err := again.Put(blob); err != nil {
					t.Fatal(err)
				}
				if has, err := again.Blob(b); err != nil || string(has) != string(blob) {
					t.Error(err)
				}
				return f
			})
		})
	}
}

// TestFaultAtEveryCallOfCreate: begin makes a complete ledger, or returns an error.
func TestFaultAtEveryCallOfCreate(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	eachCall(t, allFaults, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
		dir := scratch(t)
		f := through(t, dir, how, when)
		_, err := begin(f, signer(), at(noon))
		f.reap()
		if err == nil {
			if f.hit != "" {
				t.Errorf("no error after %s", f.hit)
			}
			fixed(t, dir, at(noon), signer())
		}
		return f
	})
}

// TestFaultAtEveryCallOfRotate: after any interruption one of the two keys works, and
// its signatures are valid.
func TestFaultAtEveryCallOfRotate(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	base := sized(t, 3)
	for _, order := range [][]*ledger.Signer{{signer(), successor()}, {successor(), signer()}} {
		name := "old key first"
		if order[0] == successor() {
			name = "new key first"
		}
		t.Run(name, func(t *testing.T) {
			eachCall(t, allFaults, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
				dir := duplicate(t, base)
				f := through(t, dir, how, nil)
				l, err := open(f, signer(), at(noon))
				ok(t, err)
				bystander := opened(t, dir, at(noon))
				f.n, f.when = 0, when
				_, err = l.Rotate(t.Context(), successor())
				f.reap()
				if contents(dir, namePoison) != nil {
					_, repairErr := Repair(t.Context(), dir, signer(), at(noon))
					_, otherErr := Repair(t.Context(), dir, successor(), at(noon))
					if repairErr != nil && otherErr != nil {
						t.Fatal(repairErr, otherErr)
					}
				}
				rotated := strings.Contains(string(contents(dir, nameLedger)), `"key-rotation"`)
				if err == nil && !rotated {
					t.Error("a rotation was acknowledged and is not there")
				}
				for i, key := range order {
					l, err := Open(dir, key, at(noon))
					if err == nil {
						_, err = l.Append(t.Context(), decision(fmt.Sprintf("by-%d", i)))
						_ = l.Close()
					}
					if (key == successor()) == rotated {
						ok(t, err)
					} else {
						wants(t, err, ledger.ErrWrongKey)
					}
				}
				// A process that opened the ledger earlier does not sign with the old
				// key.
				if _, err := bystander.Append(t.Context(), decision("bystander")); rotated {
					wants(t, err, ledger.ErrWrongKey)
				} else {
					ok(t, err)
				}
				if rotated {
					fixed(t, dir, at(noon), successor())
				} else {
					fixed(t, dir, at(noon), signer())
				}
				return f
			})
		})
	}
}

// TestFaultAtEveryCallOfRepair: the next repair completes an interrupted one.
func TestFaultAtEveryCallOfRepair(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	t.Run("no tile", func(t *testing.T) { faultsInRepair(t, 20, allFaults) })
	t.Run("a missing tile", func(t *testing.T) { faultsInRepair(t, 257, []fault{isKilled}) })
}

func faultsInRepair(t *testing.T, size int, faults []fault) {
	eachCall(t, faults, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
		dir := sized(t, size)
		text := contents(dir, nameLedger)
		put(t, dir, nameLedger, append(text, text[:200]...))
		put(t, dir, namePoison, []byte("EIO\n"))
		remove(t, dir, "tile/0/000")
		remove(t, dir, nameCheckpoint)
		f := through(t, dir, how, when)
		_, err := repair(t.Context(), f, signer(), at(noon))
		f.reap()
		if err == nil && contents(dir, namePoison) != nil {
			t.Error("repaired, and still poisoned")
		}
		if err != nil {
			if _, err := Repair(t.Context(), dir, signer(), at(noon)); err != nil {
				t.Fatal(err)
			}
		}
		fixed(t, dir, at(noon), signer())
		return f
	})
}

// TestFullTableGrows: the table of run ids grows, whatever interrupts the growth.
func TestFullTableGrows(t *testing.T) {
	const grows = firstPages * pageSlots * 3 / 4 // entries of runs
	base := sized(t, grows+1)
	eachCall(t, []fault{failsEIO, failsENOSPC, isShort, isKilled, isKilledMid}, func(t *testing.T, how fault, when func(int, string) bool) *faulty {
		dir := duplicate(t, base)
		f := through(t, dir, how, nil)
		l, err := open(f, signer(), at(noon))
		ok(t, err)
		inDerived, counted := false, 0
		f.when = func(int, string) bool {
			// Only calls from the table on are counted.
			if call := f.calls[len(f.calls)-1]; call == "writeat "+nameOffsets {
				inDerived = true
			}
			if !inDerived {
				return false
			}
			counted++
			return when(counted, "")
		}
		r, err := l.Append(t.Context(), decision("new"))
		f.n = counted
		if err == nil && f.hit != "" && !strings.HasPrefix(f.hit, "unlock") && len(r.Warnings) == 0 {
			t.Errorf("no warning after %s", f.hit)
		}
		f.reap()
		second := add(t, opened(t, dir, at(noon)), decision("new"))
		if !second.Again {
			t.Error("the record is not found")
		}
		fixed(t, dir, at(noon), signer())
		return f
	})
}

// TestFailedSyncIsNotForgotten: the sync of a killed writer's lines fails in the next
// writer. These lines are written again before a sync is believed.
func TestFailedSyncIsNotForgotten(t *testing.T) {
	for _, name := range []string{"unsynced", "other"} { // the same run, and another
		dir := sized(t, 10)
		killed := through(t, dir, isKilled, first("datasync "+nameLedger))
		_, _, err := appendWith(t, dir, killed, at(noon), decision("unsynced"))
		wants(t, err, errKilled)
		killed.reap()
		failing := through(t, dir, failsEIO, first("datasync "+nameLedger))
		_, _, err = appendWith(t, dir, failing, at(noon), decision(name))
		wants(t, err, syscall.EIO)
		failing.reap()
		next := through(t, dir, "", nil)
		_, _, err = appendWith(t, dir, next, at(noon), decision(name))
		ok(t, err)
		next.reap()
		writes, wanted := 0, 1
		for _, call := range next.calls {
			if call == "writeat "+nameLedger {
				writes++
			}
		}
		if name == "other" {
			wanted = 2 // its own, too
		}
		if writes != wanted {
			t.Errorf("%s: %d writes, and should be %d", name, writes, wanted)
		}
		verified(t, dir, 0)
	}
}
