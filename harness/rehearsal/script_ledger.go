package rehearsal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Ledgers makes the ledgers of a script, and changes what they have stored as somebody could
// who can write there.
type Ledgers interface {
	// Make makes a ledger. Standard output has its verifier key.
	Make(ts *testscript.TestScript, name, origin string)
	// Copy makes another ledger that has what the first one has stored.
	Copy(ts *testscript.TestScript, name, copied string)
	// Entries replaces the entries, and leaves all other files as they are.
	Entries(ts *testscript.TestScript, name string, change func([][]byte) [][]byte)
	// Checkpoint changes the checkpoint that readers get.
	Checkpoint(ts *testscript.TestScript, name string, change func([]byte) []byte)
	// Evidence returns the folder of the evidence.
	Evidence(ts *testscript.TestScript, name string) string
}

// LedgerCommands are the commands of scripts that run on ledgers wherever these are kept:
//
//	ledger NAME ORIGIN           makes a ledger; $NAME is then its place, and $NAME_key what --ledger-key takes
//	copy NAME COPY               makes a ledger of what another one has stored, at another place
//	alter NAME INDEX OLD NEW     replaces a text in an entry
//	order NAME INDEX...          leaves these entries, in this order
//	checkpoint NAME OLD NEW      replaces a line of the checkpoint
//	lose NAME [TEXT]             removes the evidence that has a text, or all
//	spoil NAME [TEXT]            changes it
//	mend NAME                    undoes lose and spoil
//	stranger                     goes on as on a machine that remembers no ledger
func LedgerCommands(l Ledgers) map[string]func(*testscript.TestScript, bool, []string) {
	type command func(ts *testscript.TestScript, args []string)
	list := map[string]func(*testscript.TestScript, bool, []string){"exits": Exits}
	add := func(name string, least, most int, do command) {
		list[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < least || len(args) > most {
				ts.Fatalf("wrong arguments of %s", name)
			}
			do(ts, args)
		}
	}
	add("ledger", 2, 2, func(ts *testscript.TestScript, args []string) { l.Make(ts, args[0], args[1]) })
	add("copy", 2, 2, func(ts *testscript.TestScript, args []string) { l.Copy(ts, args[0], args[1]) })
	add("alter", 4, 4, func(ts *testscript.TestScript, args []string) {
		n, old := number(ts, args[1]), []byte(args[2])
		l.Entries(ts, args[0], func(entries [][]byte) [][]byte {
			if !bytes.Contains(entries[n], old) {
				ts.Fatalf("entry %d does not have %q", n, old)
			}
			entries[n] = bytes.Replace(entries[n], old, []byte(args[3]), 1)
			return entries
		})
	})
	add("order", 2, 256, func(ts *testscript.TestScript, args []string) {
		l.Entries(ts, args[0], func(entries [][]byte) (out [][]byte) {
			for _, n := range args[1:] {
				out = append(out, entries[number(ts, n)])
			}
			return out
		})
	})
	add("checkpoint", 3, 3, func(ts *testscript.TestScript, args []string) {
		l.Checkpoint(ts, args[0], func(b []byte) []byte {
			return bytes.Replace(b, []byte("\n"+args[1]+"\n"), []byte("\n"+args[2]+"\n"), 1)
		})
	})
	add("lose", 1, 2, func(ts *testscript.TestScript, args []string) { blobs(ts, l, args, os.Remove) })
	add("spoil", 1, 2, func(ts *testscript.TestScript, args []string) {
		blobs(ts, l, args, func(name string) error {
			b, err := os.ReadFile(name)
			return errors.Join(err, Rewrite(name, append(b, '\n')))
		})
	})
	add("mend", 1, 1, func(ts *testscript.TestScript, args []string) {
		ts.Check(os.CopyFS(clearedFolder(ts, l.Evidence(ts, args[0])), os.DirFS(ts.MkAbs("kept-"+filepath.Base(args[0])))))
	})
	add("stranger", 0, 0, func(ts *testscript.TestScript, _ []string) {
		ts.Setenv("XDG_STATE_HOME", filepath.Join(ts.Getenv("WORK"), ".state-"+rand.Text()))
	})
	return list
}

// Named sets the variables of a ledger.
func Named(ts *testscript.TestScript, name, place, key string) {
	ts.Setenv(filepath.Base(name), place)
	ts.Setenv(filepath.Base(name)+"_key", key)
}

// Rewrite gives a file another content, and removes what the file system has noted of it: a
// gateway notes the checksums of objects there.
func Rewrite(name string, b []byte) error {
	return errors.Join(os.Remove(name), os.WriteFile(name, b, 0o644))
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

// blobs changes the evidence that has a text, after it has kept all evidence for mend.
func blobs(ts *testscript.TestScript, l Ledgers, args []string, change func(name string) error) {
	dir, kept := l.Evidence(ts, args[0]), ts.MkAbs("kept-"+filepath.Base(args[0]))
	if _, err := os.Stat(kept); err != nil {
		ts.Check(os.CopyFS(kept, os.DirFS(dir)))
	}
	text := strings.Join(args[1:], "")
	changed := 0
	ts.Check(filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(b), text) {
			return err
		}
		changed++
		return change(name)
	}))
	if changed == 0 {
		ts.Fatalf("no evidence has %q", text)
	}
}

// clearedFolder removes what is in a folder, and returns the folder.
func clearedFolder(ts *testscript.TestScript, dir string) string {
	names, err := os.ReadDir(dir)
	ts.Check(err)
	for _, d := range names {
		ts.Check(os.RemoveAll(filepath.Join(dir, d.Name())))
	}
	return dir
}
