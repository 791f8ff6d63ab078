package disk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
)

// The states of a file that was never synced, after the power was lost.
var losses = []string{"old", "empty", "garbage", "zeroes", "truncated", "missing"}

// unsyncedFiles are the files that are not synced when they are written.
var unsyncedFiles = []string{nameHead, nameRuns, nameOffsets, edgeName(0), edgeName(1), nameCheckpoint}

// lose puts a file into a state.
func lose(t testing.TB, dir, older, name, how string) {
	t.Helper()
	now := contents(dir, name)
	switch how {
	case "old":
		now = contents(older, name)
	case "empty":
		now = nil
	case "garbage":
		r := rand.NewChaCha8([32]byte{byte(len(name))})
		_, _ = r.Read(now)
	case "zeroes":
		clear(now)
	case "truncated":
		if now = now[:len(now)/2]; name == nameRuns { // whole pages, which have valid checksums
			now = now[:pageBytes]
		}
	case "missing":
		remove(t, dir, name)
		return
	}
	put(t, dir, name, now)
}

// recovered checks that a ledger of size entries is unchanged, that its run ids are
// known, and that all its derived files were made again.
func recovered(t testing.TB, dir string, o Options, size int, text []byte, after []byte, lostCheckpoint bool) []ledger.Record {
	t.Helper()
	l := opened(t, dir, o)
	// A recorded run stays recorded, and is found.
	for _, i := range []int{1, size / 2, size - 1} {
		if r := add(t, l, decision(run(i))); !r.Again || r.Index != int64(i) {
			t.Fatalf("%s is recorded as entry %d, again: %v", run(i), r.Index, r.Again)
		}
	}
	add(t, l, decision("afterwards"))
	if !bytes.HasPrefix(contents(dir, nameLedger), text) {
		t.Fatal("whole lines were changed")
	}
	records := verified(t, dir, size)
	var want []string
	if lostCheckpoint {
		want = append(want, ledger.RepairCheckpoint)
	}
	if bytes.HasSuffix(after, []byte("}")) {
		want = append(want, ledger.RepairNewline)
	} else if len(after) > 0 {
		want = append(want, ledger.RepairTornTail)
		names, err := filepath.Glob(filepath.Join(dir, nameQuarantine, "*"))
		if ok(t, err); len(names) != 1 {
			t.Fatalf("quarantine has %q", names)
		}
		if kept, err := os.ReadFile(names[0]); err != nil || !bytes.Equal(kept, after) {
			t.Errorf("quarantine keeps %d bytes of %d: %v", len(kept), len(after), err)
		}
	}
	got := repairs(records)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("recorded repairs are %q, and should be %q", got, want)
	}
	return records
}

// tornEnds returns the possible bytes after the last synced line.
func tornEnds(next []byte) map[string][]byte {
	whole := next[:len(next)-1]
	ends := map[string][]byte{
		"nothing": nil, "no line feed": whole,
		"one NUL": {0}, "NULs": make([]byte, 5000), "many NULs": make([]byte, ledger.MaxTornBytes),
	}
	for _, n := range []int{1, 2, 9, 10, 19, 20, 62, 63, 64, 100, 155, 170, 200, 400, 511, 512, 700, len(whole) - 2, len(whole) - 1} {
		ends[fmt.Sprintf("%d bytes", n)] = whole[:n]
		ends[fmt.Sprintf("%d bytes and NULs", n)] = append(bytes.Clone(whole[:n]), make([]byte, 4096-n)...)
	}
	return ends
}

// TestPowerLoss: the unsynced files and the line after the last synced one can have any
// state. The ledger verifies, and the derived files are made again.
func TestPowerLoss(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	const size = 300
	older := sized(t, 250)
	base := sized(t, size)
	other := sized(t, size+1)
	text := contents(base, nameLedger)
	next := contents(other, nameLedger)[len(text):]
	ends := tornEnds(next)
	var names []string
	for name := range ends {
		names = append(names, name)
	}
	slices.Sort(names)

	type loss map[string]string
	var states []loss
	for _, name := range unsyncedFiles {
		for _, how := range losses {
			states = append(states, loss{name: how})
		}
	}
	for _, how := range losses {
		all := loss{}
		for _, name := range unsyncedFiles {
			all[name] = how
		}
		states = append(states, all)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for len(states) < rehearsal.Count(70, 120) {
		some := loss{}
		for _, name := range unsyncedFiles {
			if i := random.IntN(len(losses) + 2); i < len(losses) {
				some[name] = losses[i]
			}
		}
		states = append(states, some)
	}
	for i, state := range states {
		end := names[i%len(names)]
		t.Run(fmt.Sprintf("%v %s", state, end), func(t *testing.T) {
			dir := duplicate(t, base)
			for name, how := range state {
				lose(t, dir, older, name, how)
			}
			if i%3 == 0 {
				remove(t, dir, "tile") // its name was not on the disk yet
			}
			put(t, dir, nameLedger, append(bytes.Clone(text), ends[end]...))
			o := at(noon)
			o.boot = "boot-b"
			how := state[nameCheckpoint]
			recovered(t, dir, o, size, text, ends[end], how != "" && how != "old")
			sameDerived(t, dir)
		})
	}
	t.Logf("%d states", len(states))
	for _, end := range names {
		t.Run("only the end/"+end, func(t *testing.T) {
			dir := duplicate(t, base)
			put(t, dir, nameLedger, append(bytes.Clone(text), ends[end]...))
			recovered(t, dir, at(noon), size, text, ends[end], false)
			sameDerived(t, dir)
		})
	}
	remove(t, base, nameState)
	t.Run("the whole .state", func(t *testing.T) {
		recovered(t, base, at(noon), size, text, nil, false)
		sameDerived(t, base)
	})
}

// TestDerivedDamagedWithoutPowerLoss: a wrong derived file is also detected on the
// system that wrote it. No run is recorded twice because of it.
func TestDerivedDamagedWithoutPowerLoss(t *testing.T) {
	const size = 511
	older, base := sized(t, 500), sized(t, size)
	text := contents(base, nameLedger)
	for _, name := range unsyncedFiles {
		for _, how := range losses[1:] {
			t.Run(name+" "+how, func(t *testing.T) {
				dir := duplicate(t, base)
				lose(t, dir, older, name, how)
				// This record fills a tile.
				recovered(t, dir, at(noon), size, text, nil, name == nameCheckpoint)
				if strings.HasPrefix(name, nameEdge) {
					add(t, opened(t, dir, at(noon)), decision("one-more"))
				}
				if name == edgeName(1) { // which is read when it is full
					_, err := Repair(t.Context(), dir, signer(), at(noon))
					ok(t, err)
				}
				sameDerived(t, dir)
			})
		}
	}
}

// TestOldHead: a head is many entries old, and its edges were overwritten since.
func TestOldHead(t *testing.T) {
	for _, old := range []int{2, 200, 255, 256, 257, 500, 511, 512} {
		t.Run(fmt.Sprint(old), func(t *testing.T) {
			older, dir := sized(t, old), sized(t, 530)
			lose(t, dir, older, nameHead, "old")
			rehead(t, dir, func(h *head) {})
			recovered(t, dir, at(noon), 530, contents(dir, nameLedger), nil, false)
			sameDerived(t, dir)
		})
	}
	// The same with missing tiles: overwritten data does not count as a tile.
	older, dir := sized(t, 200), sized(t, 530)
	lose(t, dir, older, nameHead, "old")
	rehead(t, dir, func(h *head) {})
	remove(t, dir, "tile")
	recovered(t, dir, at(noon), 530, contents(dir, nameLedger), nil, false)
	sameDerived(t, dir)
}

// TestSecondLevelOfTiles appends across entry 65 536, with kills during the writing of
// derived files.
func TestSecondLevelOfTiles(t *testing.T) {
	const size = 1 << 16
	dir := filepath.Join(scratch(t), "ledger")
	_, err := Create(dir, signer(), at(noon))
	ok(t, err)
	// The entries are as a writer would make them. Only the last has a valid signature,
	// because the others are not checked here.
	first, _, _ := bytes.Cut(contents(dir, nameLedger), []byte("\n"))
	genesis, err := ledger.ParseLine(first)
	ok(t, err)
	var tree ledger.Range
	tree.Append(ledger.LeafHash(genesis.Entry), nil)
	text := append(first, '\n')
	rec := ledger.Record{Kind: ledger.KindRepair, Repairs: []ledger.Repair{{What: ledger.RepairCheckpoint}}}
	rec.Stamp(noon, "")
	entry, err := rec.Entry()
	ok(t, err)
	for tree.Size < size-1 {
		tree.Append(ledger.LeafHash(entry), nil)
		seal := ledger.Seal{Size: tree.Size, Root: tree.Root()}
		if tree.Size == size-1 {
			seal, err = signer().Seal(tree.Size, tree.Root())
			ok(t, err)
		}
		text = ledger.Line{Seal: seal, Entry: entry}.Append(text)
	}
	put(t, dir, nameLedger, text)
	_, err = Repair(t.Context(), dir, signer(), at(noon))
	ok(t, err)
	state := filepath.Join(scratch(t), "state")
	ok(t, os.CopyFS(state, os.DirFS(filepath.Join(dir, nameState))))
	checkpoint := contents(dir, nameCheckpoint)
	kills := 0
	for n := 1; ; n++ {
		derives, calls := false, 0
		f := through(t, dir, isKilled, func(_ int, call string) bool {
			derives = derives || call == "datasync "+nameLedger
			if derives {
				calls++
			}
			return calls == n
		})
		_, _, err := appendWith(t, dir, f, at(noon), decision("new"))
		f.reap()
		if f.hit != "" {
			kills++
		} else {
			ok(t, err)
		}
		add(t, opened(t, dir, at(noon)), decision("new"), decision("other"))
		for _, name := range []string{"tile/0/255", "tile/1/000"} {
			if len(contents(dir, name)) != 8192 {
				t.Errorf("%s is not there after a kill at %s", name, f.hit)
			}
		}
		if f.hit == "" || t.Failed() {
			break
		}
		// Restore the earlier state.
		ok(t, os.Truncate(filepath.Join(dir, nameLedger), int64(len(text))))
		put(t, dir, nameCheckpoint, checkpoint)
		remove(t, dir, "tile/0/255")
		remove(t, dir, "tile/1")
		remove(t, dir, nameState)
		ok(t, os.CopyFS(filepath.Join(dir, nameState), os.DirFS(state)))
	}
	sameDerived(t, dir)
	verified(t, dir, size-1)
	t.Logf("%d kills", kills)
}
