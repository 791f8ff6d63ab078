package auditors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// bin is the folder of torch, fsckrun and fsck.
var bin string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "auditors")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	for module, programs := range map[string][]string{
		".":                          {"./torch", "./fsckrun", "github.com/transparency-dev/tessera/cmd/fsck"},
		root:                         {"./cmd/fiador"},
		"lite":                       {".", "filippo.io/torchwood/cmd/litewitness"},
		filepath.Join(root, "bench"): {"."},
		filepath.Join(root, "cmd/fiador-ledgerd"): {"."},
	} {
		build := exec.Command("go", append([]string{"build", "-C", module, "-o", bin + string(filepath.Separator)}, programs...)...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// producers are the writers under audit. Each publishes a log of n entries altogether in
// the empty folder dir, and returns the log's verifier key.
var producers = []struct {
	name    string
	publish func(t *testing.T, dir string, n int) (verifier string)
	least   int // entries
}{
	{"reference", func(t *testing.T, dir string, n int) string {
		k := newKey(t, origin)
		writeTree(t, dir, k, entriesOf("decision", n))
		return k.verifier
	}, 0},
	// The smallest log of Fiador's has one entry, the genesis.
	{"fiador", publishLedger, 1},
}

// root is the module whose ledger is under audit.
const root = "../.."

// publishLedger publishes a ledger of Fiador's.
func publishLedger(t *testing.T, dir string, n int) (verifier string) {
	t.Helper()
	book := filepath.Join(t.TempDir(), "ledger")
	fiador(t, "bench", "-book", strconv.Itoa(n), "-o", book)
	fiador(t, "fiador", "ledger", "publish", "--ledger", book, dir)
	text, err := os.ReadFile(filepath.Join(book, "origin.json"))
	if err != nil {
		t.Fatal(err)
	}
	var origin struct{ Keys []struct{ Key string } }
	if err := json.Unmarshal(text, &origin); err != nil || len(origin.Keys) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	return origin.Keys[0].Key
}

func fiador(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, program), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", program, args, err, stderr.Bytes())
	}
	return out
}

// TestFiadorProofs: torchwood accepts the proofs that Fiador gives for the entries of its
// own ledger. It accepts them for no other entry.
func TestFiadorProofs(t *testing.T) {
	book, files := filepath.Join(t.TempDir(), "ledger"), t.TempDir()
	fiador(t, "bench", "-book", "300", "-o", book)
	dir := t.TempDir()
	fiador(t, "fiador", "ledger", "publish", "--ledger", book, dir)
	text, err := os.ReadFile(filepath.Join(book, "origin.json"))
	if err != nil {
		t.Fatal(err)
	}
	verifier := regexp.MustCompile(`"key":"([^"]*)"`).FindStringSubmatch(string(text))[1]
	entries := entriesIn(t, dir, 300)
	for _, index := range []int{0, 1, 255, 256, 298, 299} {
		proof, entry := filepath.Join(files, "proof"), filepath.Join(files, "entry")
		for name, content := range map[string][]byte{
			proof: fiador(t, "fiador", "ledger", "prove", "--ledger", book, strconv.Itoa(index)), entry: entries[index],
		} {
			if err := os.WriteFile(name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		audit(t, holds, "torch", "--key", verifier, "--proof", proof, "--entry", entry)
		if err := os.WriteFile(entry, entries[(index+1)%300], 0o644); err != nil {
			t.Fatal(err)
		}
		audit(t, "verification failed", "torch", "--key", verifier, "--proof", proof, "--entry", entry)
	}
}

// holds is the reason of an auditor that finds nothing wrong.
const holds = ""

// audit runs one of the programs and fails the test unless the program ends as expected.
// If all is right, the program ends with status 0 and one success line. Otherwise it ends
// with status 1 and a reason that contains why.
func audit(t *testing.T, why, program string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, program), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	status := cmd.ProcessState.ExitCode()
	t.Logf("%s: exit %d\n%s%s", program, status, &stdout, &stderr)

	if why == holds {
		if status != 0 || strings.Count(stdout.String(), "\n") != 1 || !strings.HasPrefix(stdout.String(), program+": ok: ") {
			t.Errorf("%s refuses what is right", program)
		}
		return
	}
	if status != 1 || stdout.Len() > 0 {
		t.Errorf("%s does not refuse what is wrong", program)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, program+": ") || !strings.Contains(last, why) {
		t.Errorf("the reason is %q, and not %q", last, why)
	}
}

// TestSizes: every size around the border of a tile is good, and consists of the files
// that the reference writer makes of its entries.
func TestSizes(t *testing.T) {
	for _, p := range producers {
		for _, n := range []int{0, 1, 2, 255, 256, 257, 65535, 65536, 65537} {
			if n < p.least {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", p.name, n), func(t *testing.T) {
				dir := t.TempDir()
				verifier := p.publish(t, dir, n)
				audit(t, holds, "torch", "--key", verifier, dir)
				audit(t, holds, "fsckrun", "--key", verifier, dir)

				again := t.TempDir()
				writeTree(t, again, newKey(t, origin), entriesIn(t, dir, n))
				sameTiles(t, dir, again)
			})
		}
	}
}

// sameTiles fails the test unless two trees have the same files of the same bytes
// below "tile".
func sameTiles(t *testing.T, dir, again string) {
	t.Helper()
	got, want := files(t, dir, "tile"), files(t, again, "tile")
	if !slices.Equal(got, want) {
		t.Fatalf("the files are %q, and not %q", got, want)
	}
	for _, f := range got {
		if !bytes.Equal(read(t, dir, f), read(t, again, f)) {
			t.Errorf("%s differs", f)
		}
	}
}

// files returns the files of dir whose path begins with the prefix.
func files(t *testing.T, dir, prefix string) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(path, prefix) {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestGrowth: for every pair of sizes, the audit accepts a tree that grew out of the other
// one, and refuses a smaller tree.
func TestGrowth(t *testing.T) {
	k := newKey(t, origin)
	sizes := []int{0, 1, 255, 256, 257, 700}
	dirs := make([]string, len(sizes))
	for i, n := range sizes {
		dirs[i] = t.TempDir()
		writeTree(t, dirs[i], k, entriesOf("decision", n))
	}
	for i := range sizes {
		for j := range sizes {
			t.Run(fmt.Sprintf("%d from %d", sizes[i], sizes[j]), func(t *testing.T) {
				why := holds
				if i < j {
					why = "rolled back"
				}
				audit(t, why, "torch", "--key", k.verifier, "--since", filepath.Join(dirs[j], "checkpoint"), dirs[i])
			})
		}
	}
}

// TestAllowed: the additional text that a checkpoint may carry.
func TestAllowed(t *testing.T) {
	k := newKey(t, origin)
	entries := entriesOf("decision", 3)
	_, tree := store(t, entries)
	text := checkpointText(origin, tree)
	for name, checkpoint := range map[string]string{
		"an extension line":     string(k.sign(t, text+"extension\n")),
		"a witness's signature": cosigned(t, k.sign(t, text), newKey(t, "witness.example").sign(t, text)),
		"a witness before it":   cosigned(t, newKey(t, "witness.example").sign(t, text), k.sign(t, text)),
		"a second key's":        cosigned(t, k.sign(t, text), newKey(t, origin).sign(t, text)),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, k, entries)
			write(t, dir, "checkpoint", []byte(checkpoint))
			audit(t, holds, "torch", "--key", k.verifier, dir)
			audit(t, holds, "fsckrun", "--key", k.verifier, dir)
		})
	}
}

// cosigned returns a signed note with the signatures of another note of the same text.
func cosigned(t *testing.T, signed, other []byte) string {
	t.Helper()
	text, signatures, ok := bytes.Cut(other, []byte("\n\n"))
	if !ok || !bytes.HasPrefix(signed, text) {
		t.Fatal("not a note of the same text")
	}
	return string(signed) + string(signatures)
}

// TestTampering: torchwood notices every change of a published tree. fsck notices it too,
// except where the table says that it does not.
func TestTampering(t *testing.T) {
	const n = 700 // two full bundles and a partial one
	k := newKey(t, origin)
	entries := func() [][]byte { return entriesOf("decision", n) }
	tree := func(word string, n int) tlog.Tree {
		_, tree := store(t, entriesOf(word, n))
		return tree
	}

	type tampering struct {
		name  string
		why   string // part of torchwood's reason
		blind bool   // fsck does not notice
		do    func(t *testing.T, dir string)
	}
	cases := []tampering{
		{"entry replaced", "hash mismatch for entry 300", false, func(t *testing.T, dir string) {
			e := entries()
			e[300] = entriesOf("denial!!", 301)[300]
			writeBundles(t, dir, e)
		}},
		{"entries swapped", "hash mismatch for entry 299", false, func(t *testing.T, dir string) {
			e := entries()
			e[299], e[300] = e[300], e[299]
			writeBundles(t, dir, e)
		}},
		{"entry deleted", "hash mismatch for entry 300", false, func(t *testing.T, dir string) {
			e := slices.Delete(entries(), 300, 301)
			write(t, dir, bundlePath(256, n), bundleOf(e[256:512]))
			write(t, dir, bundlePath(512, n), bundleOf(e[512:]))
		}},
		{"last entry deleted", "unexpected end of tile data", false, func(t *testing.T, dir string) {
			write(t, dir, bundlePath(512, n), bundleOf(entries()[512:n-1]))
		}},
		{"entry inserted", "hash mismatch for entry 300", false, func(t *testing.T, dir string) {
			e := slices.Insert(entries(), 300, []byte("{}"))
			write(t, dir, bundlePath(256, n), bundleOf(e[256:512]))
			write(t, dir, bundlePath(512, n), bundleOf(e[512:]))
		}},
		{"entry inserted at the end", "leftover data in tile 2", true, func(t *testing.T, dir string) {
			write(t, dir, bundlePath(512, n), bundleOf(entriesOf("decision", n+1)[512:]))
		}},
		{"entry inserted at the end of a full bundle", "leftover data in tile 0", true, func(t *testing.T, dir string) {
			write(t, dir, bundlePath(0, n), bundleOf(entries()[:257]))
		}},
		{"checkpoint's root altered", "invalid signature", false, func(t *testing.T, dir string) {
			b := read(t, dir, "checkpoint")
			old, forged := tree("decision", n).Hash.String(), tree("denial", n).Hash.String()
			write(t, dir, "checkpoint", bytes.Replace(b, []byte(old), []byte(forged), 1))
		}},
		{"checkpoint's root altered and signed", "inconsistent tile", false, func(t *testing.T, dir string) {
			write(t, dir, "checkpoint", k.sign(t, checkpointText(origin, tree("denial", n))))
		}},
		{"checkpoint's size altered and signed", "failed to read tile", false, func(t *testing.T, dir string) {
			tree := tree("decision", n)
			tree.N--
			write(t, dir, "checkpoint", k.sign(t, checkpointText(origin, tree)))
		}},
		{"checkpoint promises more", "failed to read tile", false, func(t *testing.T, dir string) {
			write(t, dir, "checkpoint", k.sign(t, checkpointText(origin, tree("decision", n+1))))
		}},
		{"checkpoint signed with another key", "no verifiable signatures", false, func(t *testing.T, dir string) {
			write(t, dir, "checkpoint", newKey(t, origin).sign(t, checkpointText(origin, tree("decision", n))))
		}},
		{"checkpoint under another origin", "only 1/2 policy components", false, func(t *testing.T, dir string) {
			write(t, dir, "checkpoint", k.sign(t, checkpointText(origin+"/seal", tree("decision", n))))
		}},
		{"checkpoint gone", "openat checkpoint", false, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "checkpoint")); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, at := range []int{0, 1, 2, 31, 7000} { // in the length of an entry, and in entries
		for _, i := range []int{0, 256, 512} {
			path := bundlePath(i, n)
			cases = append(cases, tampering{fmt.Sprintf("bit flipped in byte %d of %s", at, path), "hash mismatch for entry", false, func(t *testing.T, dir string) {
				b := read(t, dir, path)
				b[at] ^= 1
				write(t, dir, path, b)
			}})
		}
	}
	for _, tile := range tlog.NewTiles(tileHeight, 0, n) {
		path := tilePath(fmt.Sprint(tile.L), tile.N, tile.W)
		cases = append(cases, tampering{"hash altered in " + path, "inconsistent tile", false, func(t *testing.T, dir string) {
			b := read(t, dir, path)
			b[len(b)-1] ^= 0x80
			write(t, dir, path, b)
		}}, tampering{"hash gone from " + path, "bad result slice", false, func(t *testing.T, dir string) {
			b := read(t, dir, path)
			write(t, dir, path, b[:len(b)-32])
		}}, tampering{"gone: " + path, "failed to read tile", false, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		}}, tampering{"hash added to " + path, "bad result slice", tile.W < tileWidth, func(t *testing.T, dir string) {
			write(t, dir, path, append(read(t, dir, path), make([]byte, 32)...))
		}})
	}

	good := t.TempDir()
	writeTree(t, good, k, entries())
	audit(t, holds, "torch", "--key", k.verifier, good)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			tc.do(t, dir)
			audit(t, tc.why, "torch", "--key", k.verifier, dir)
			if tc.blind {
				audit(t, holds, "fsckrun", "--key", k.verifier, dir)
			} else {
				audit(t, "fsckrun: ", "fsckrun", "--key", k.verifier, dir)
			}
		})
	}
}

// TestEarlier: a tree that is good in itself is refused if another tree was promised
// before. No single tree tells, so fsck cannot.
func TestEarlier(t *testing.T) {
	k := newKey(t, origin)
	pinned := t.TempDir()
	writeTree(t, pinned, k, entriesOf("decision", 700))
	rewritten := entriesOf("decision", 800)
	rewritten[699] = []byte("{}")
	for _, tc := range []struct {
		name, why string
		entries   [][]byte
	}{
		{"rolled back", "rolled back: 600 entries, but there were 700", entriesOf("decision", 600)},
		{"rewritten", "was signed", entriesOf("denial", 700)},
		{"rewritten and grown on", "was signed", rewritten},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, k, tc.entries)
			audit(t, holds, "torch", "--key", k.verifier, dir)
			audit(t, holds, "fsckrun", "--key", k.verifier, dir)
			audit(t, tc.why, "torch", "--key", k.verifier, "--since", filepath.Join(pinned, "checkpoint"), dir)
		})
	}
	t.Run("pinned by another", func(t *testing.T) {
		audit(t, "no verifiable signatures", "torch", "--key", newKey(t, origin).verifier, "--since", filepath.Join(pinned, "checkpoint"), pinned)
	})
}

// TestProofs: the proof of an entry holds for that entry. Nothing else holds.
func TestProofs(t *testing.T) {
	k := newKey(t, origin)
	check := func(t *testing.T, why, verifier string, proof, entry []byte) {
		t.Helper()
		dir := t.TempDir()
		write(t, dir, "proof", proof)
		write(t, dir, "entry", entry)
		audit(t, why, "torch", "--key", verifier, "--proof", filepath.Join(dir, "proof"), "--entry", filepath.Join(dir, "entry"))
	}
	for _, tc := range []struct{ n, i int }{{1, 0}, {2, 1}, {255, 254}, {256, 0}, {257, 256}, {700, 300}, {65537, 65535}} {
		t.Run(fmt.Sprintf("%d of %d", tc.i, tc.n), func(t *testing.T) {
			entries := entriesOf("decision", tc.n)
			check(t, holds, k.verifier, prove(t, k, entries, tc.i), entries[tc.i])
		})
	}

	const i = 300
	entries := entriesOf("decision", 700)
	proof, entry := prove(t, k, entries, i), entries[i]
	lines := strings.SplitAfter(string(proof), "\n")
	edited := func(line int, text string) []byte {
		l := slices.Clone(lines)
		l[line] = text
		return []byte(strings.Join(l, ""))
	}
	for _, tc := range []struct {
		name     string
		why      string
		verifier string
		proof    []byte
		entry    []byte
	}{
		{"another entry", "failed for index 300", k.verifier, proof, entries[i+1]},
		{"a line feed after the entry", "failed for index 300", k.verifier, proof, append(slices.Clone(entry), '\n')},
		{"another index", "failed for index 301", k.verifier, edited(1, "index 301\n"), entry},
		{"an index beyond the tree", "failed for index 700", k.verifier, edited(1, "index 700\n"), entry},
		{"a hash altered", "failed for index 300", k.verifier, edited(3, lines[2]), entry},
		{"a hash missing", "failed for index 300", k.verifier, edited(3, ""), entry},
		{"a hash too many", "failed for index 300", k.verifier, edited(3, lines[3]+lines[3]), entry},
		{"the first line of another version", "missing header", k.verifier, edited(0, "c2sp.org/tlog-proof@v2\n"), entry},
		{"another tree", "invalid signature", k.verifier, bytes.Replace(proof, []byte("\n700\n"), []byte("\n701\n"), 1), entry},
		{"another key", "no verifiable signatures", newKey(t, origin).verifier, proof, entry},
	} {
		t.Run(tc.name, func(t *testing.T) { check(t, tc.why, tc.verifier, tc.proof, tc.entry) })
	}
}

// TestFsckRun: only a good end of fsck counts as one, whatever fsck says before.
func TestFsckRun(t *testing.T) {
	k, dir := newKey(t, origin), t.TempDir()
	writeTree(t, dir, k, entriesOf("decision", 3))
	_, tree := store(t, entriesOf("decision", 3))
	line := fmt.Sprintf("Successfully fsck'd log with size 3 and root %s (%x)", tree.Hash, tree.Hash[:])
	for _, tc := range []struct {
		name, why string
		script    string
	}{
		{"success", holds, fmt.Sprintf(`echo "I0101 main.go:1] %s"`, line)},
		{"silence", "does not say", "exit 0"},
		{"success of another tree", "does not say", fmt.Sprintf(`echo "I0101 main.go:1] %s"`, strings.Replace(line, "3", "4", 1))},
		{"success within a line", "does not say", fmt.Sprintf(`echo "I0101 main.go:1] entry: %s"`, line)},
		{"failure", "fsck: wrong", `echo "E0101 main.go:1] fsck failed: wrong"`},
		{"success and failure", "fsck: wrong", fmt.Sprintf(`echo "I0101 main.go:1] %s"; echo "E0101 main.go:1] fsck failed: wrong"`, line)},
		{"success and status 3", "exit status 3", fmt.Sprintf(`echo "I0101 main.go:1] %s"; exit 3`, line)},
		{"success and no end", "no end within 5s", fmt.Sprintf(`echo "I0101 main.go:1] %s"; exec sleep 600`, line)},
	} {
		// The file is written before anything runs at the same time. Otherwise a child of
		// another test could still have the file open for writing, and the file could not
		// be started.
		program := filepath.Join(t.TempDir(), "fsck")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			limit := "1m"
			if strings.HasPrefix(tc.why, "no end") {
				limit = "5s"
			}
			audit(t, tc.why, "fsckrun", "--limit", limit, "--fsck", program, "--key", k.verifier, dir)
		})
	}
	t.Run("no end after many wrong tiles", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		writeTree(t, dir, k, entriesOf("decision", 50*tileWidth))
		writeBundles(t, dir, entriesOf("denial", 50*tileWidth))
		audit(t, "no end within 5s", "fsckrun", "--limit", "5s", "--key", k.verifier, dir)
	})
}

// TestReadsAll: torchwood's verdict covers every file of a tree.
func TestReadsAll(t *testing.T) {
	k := newKey(t, origin)
	for _, n := range []int{1, 256, 257, 700, 65537} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, k, entriesOf("decision", n))
			files := files(t, dir, "")
			for i := 0; i < len(files); i += 1 + len(files)/20 {
				file := filepath.Join(dir, files[i])
				if err := os.Rename(file, file+"~"); err != nil {
					t.Fatal(err)
				}
				audit(t, "no such file", "torch", "--key", k.verifier, dir)
				if err := os.Rename(file+"~", file); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
