package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// grow makes the log of a server that has ended as large as if it had got records of many runs.
func (p *place) grow(size int) {
	p.t.Helper()
	signer, err := disk.ReadKey(p.key)
	check(p.t, err)
	text, err := os.ReadFile(filepath.Join(p.dir, claims.Name))
	check(p.t, err)
	genesis, _, _ := bytes.Cut(text, []byte("\n"))
	var hashes []tlog.Hash
	stored := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var list []tlog.Hash
		for _, i := range indexes {
			list = append(list, hashes[i])
		}
		return list, nil
	})
	put := func(name string, content []byte) {
		name = filepath.Join(p.dir, name)
		check(p.t, os.MkdirAll(filepath.Dir(name), 0o755))
		check(p.t, os.WriteFile(name, content, 0o644))
	}
	now := time.Now()
	var claimed, bundle []byte
	for i := range size {
		entry := genesis
		if i > 0 {
			rec := begun(fmt.Sprintf("old-%d", i))
			rec.IntentSHA256 = hash(cmp.Or(p.intent, "intent"))
			rec.Stamp(now, "")
			entry, err = rec.Entry()
			check(p.t, err)
		}
		more, err := tlog.StoredHashes(int64(i), entry, stored)
		check(p.t, err)
		hashes = append(hashes, more...)
		claimed = fmt.Appendf(claimed, "%s\n%s%d]}\n", entry, indexesOf, i)
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(entry))), entry...)
		if n := i / ledger.TileWidth; i%ledger.TileWidth == ledger.TileWidth-1 || i == size-1 {
			put("log/"+ledger.TilePath(tlog.Tile{H: ledger.TileHeight, L: -1, N: int64(n), W: i%ledger.TileWidth + 1}), bundle)
			bundle = nil
		}
	}
	for _, t := range tlog.NewTiles(ledger.TileHeight, 0, int64(size)) {
		data, err := tlog.ReadTileData(t, stored)
		check(p.t, err)
		put("log/"+ledger.TilePath(t), data)
	}
	root, err := tlog.TreeHash(int64(size), stored)
	check(p.t, err)
	c, err := signer.Checkpoint(int64(size), root)
	check(p.t, err)
	state, err := json.Marshal(map[string]any{"size": size, "root": root[:]})
	check(p.t, err)
	put("log/checkpoint", c.Note)
	put("log/.state/treeState", state)
	put(claims.Name, claimed)
}

// TestLargeTakeOver: a standby takes over a log of a million entries (in the full form), and logs
// the time. TestFollow holds that it leads with the claims that it has read before.
func TestLargeTakeOver(t *testing.T) {
	p := newPlace(t)
	check(t, p.start(server.Config{}).stop())
	size := rehearsal.Count(5000, 1_000_000)
	start := time.Now()
	p.grow(size)
	t.Logf("%d entries were made in %s", size, time.Since(start))
	start = time.Now()
	first := p.process()
	t.Logf("the first server writes after %s", time.Since(start))
	first.accepted(begun("run-1"), first.post(begun("run-1")))
	second := p.process()
	first.accepted(begun("run-2"), first.post(begun("run-2")))
	first.kill()
	start = time.Now()
	rec := begun("run-3")
	second.accepted(rec, second.retry(rec))
	t.Logf("the second server took over after %s", time.Since(start))
	for run, index := range map[string]int64{"old-1": 1, fmt.Sprintf("old-%d", size-1): int64(size) - 1, "run-1": int64(size), "run-2": int64(size) + 1} {
		if got := second.post(begun(run)); !got.Again || got.Index != index {
			t.Errorf("%s: %s", run, got.body)
		}
	}
}

// TestFollowedClaimsChange: the claims are changed, or written again, after a standby has read
// them. Nothing is recorded twice, and nothing is lost.
func TestFollowedClaimsChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(text []byte) []byte{
		"nothing":        func(text []byte) []byte { return text },
		"an early entry": func(text []byte) []byte { return bytes.Replace(text, []byte(hash("intent")), []byte(hash("other")), 1) },
		"every entry": func(text []byte) []byte {
			return bytes.ReplaceAll(text, []byte(hash("intent")), []byte(hash("other")))
		},
		"shorter": func(text []byte) []byte { return text[:len(text)/2] },
		"other batches": func(text []byte) []byte {
			lines := strings.SplitAfter(string(text), "\n")
			var kept []string
			for _, line := range lines {
				if !strings.HasPrefix(line, indexesOf) {
					kept = append(kept, line)
				}
			}
			return []byte(strings.Join(kept, "") + `{"indexes":[0,1,2,3,4]}` + "\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.t = t
			first := p.process()
			for i := range 4 {
				rec := begun(fmt.Sprintf("run-%d", i))
				first.accepted(rec, first.post(rec))
			}
			first.log(5)
			second := p.process()
			first.kill()
			p.claimsFile(change)
			for i := range 6 {
				rec := begun(fmt.Sprintf("run-%d", i))
				got := second.retry(rec)
				if second.accepted(rec, got); got.Again != (i < 4) || got.Index != int64(i+1) {
					t.Errorf("run-%d: %s", i, got.body)
				}
			}
			if n := len(second.log(7)); n != 7 {
				t.Errorf("%d records", n)
			}
			check(t, second.stop())
			p.same(6, 0)
		})
	}
}
