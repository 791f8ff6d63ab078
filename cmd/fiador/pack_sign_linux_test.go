package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
)

// packed is a folder with keys, a ledger, and the pack of an intent that the ledger
// records. run runs fiador there.
type packed struct {
	t   *testing.T
	dir string
}

func newPacked(t *testing.T, intent string, flags ...string) packed {
	t.Helper()
	p := packed{t, t.TempDir()}
	for _, name := range []string{"work", "keys"} {
		if err := os.Mkdir(filepath.Join(p.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.dir, "work", "intent.json"), []byte(intent), 0o600); err != nil {
		t.Fatal(err)
	}
	p.run("ledger", "init", "../ledger", "--origin", "example.com/gate", "--key", "../keys/gate")
	p.run("pack", "keygen", "--name", "example.com/release", "--key", "../keys/pack")
	args := []string{"run", "intent.json", "--pack", "../pack", "--ledger", "../ledger", "--ledger-key", "../keys/gate"}
	out, err := p.command(append(args, flags...)...).CombinedOutput()
	if bytes.Contains(out, []byte(`{"code":"RUN_E005"`)) {
		t.Skipf("nothing is executed here: %s", out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

func (p packed) command(args ...string) *exec.Cmd {
	cmd := exec.Command("fiador", args...)
	cmd.Dir = filepath.Join(p.dir, "work")
	cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+p.dir, "TMPDIR="+p.dir)
	return cmd
}

func (p packed) run(args ...string) {
	p.t.Helper()
	if out, err := p.command(args...).CombinedOutput(); err != nil {
		p.t.Fatalf("fiador %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// key returns the verifier key of a private key.
func (p packed) key(name string) *ledger.Verifier {
	p.t.Helper()
	s, err := ledgers.ReadKey(filepath.Join(p.dir, "keys", name))
	if err != nil {
		p.t.Fatal(err)
	}
	v := s.Verifier()
	return &v
}

func (p packed) read(path string) *pack.Pack {
	p.t.Helper()
	got, err := pack.Open(filepath.Join(p.dir, path))
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

const packedIntent = `{"goal":"Write the notes","constraints":["keep it short"],"actions":[{"kind":"write","path":"out/a.txt","content":"x"}]}`

// TestPackIsAuthentic: the pack of a recorded run, executed or not, is authentic as a
// folder and as an archive. It is not authentic for another key.
func TestPackIsAuthentic(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"planned": nil, "executed": {"--mode", "execute-sandbox"}} {
		t.Run(name, func(t *testing.T) {
			p := newPacked(t, packedIntent, flags...)
			p.run("pack", "sign", "../pack", "--key", "../keys/pack")
			p.run("pack", "archive", "../pack", "../pack.tar.gz")
			p.run("pack", "keygen", "--name", "example.com/release", "--key", "../keys/other")
			for _, path := range []string{"pack", "pack.tar.gz"} {
				got := p.read(path)
				if a := sign.Authenticate(got, p.key("pack"), p.key("gate")); !a.Signed || a.Recorded == nil {
					t.Errorf("%s: %+v", path, a)
				}
				if a := sign.Authenticate(got, p.key("other"), p.key("pack")); a.Signed || a.Recorded != nil || len(a.Violations) != 2 {
					t.Errorf("%s, for other keys: %+v", path, a)
				}
			}
		})
	}
}

// TestSignKilled: a kill at any time leaves the old meta.json or the new one. It leaves no
// other file in the pack.
func TestSignKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	p := newPacked(t, packedIntent)
	before := p.read("pack")
	began := time.Now()
	p.run("pack", "sign", "../pack", "--key", "../keys/pack")
	took := time.Since(began)
	after := p.read("pack")
	old, signed := before.File(pack.MetaFile), after.File(pack.MetaFile)
	if bytes.Equal(old, signed) {
		t.Fatal("nothing was signed")
	}
	kills := rehearsal.Count(20, 60)
	seen := map[bool]int{}
	for i := range kills {
		if err := os.WriteFile(filepath.Join(p.dir, "pack", pack.MetaFile), old, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := p.command("pack", "sign", "../pack", "--key", "../keys/pack")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(took * time.Duration(i) / time.Duration(kills*3/4))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		got := p.read("pack")
		meta := got.File(pack.MetaFile)
		if len(got.Entries) != len(before.Entries) || !bytes.Equal(meta, old) && !bytes.Equal(meta, signed) {
			t.Fatalf("after the kill %d: %d files, meta.json %q", i, len(got.Entries), meta)
		}
		seen[bytes.Equal(meta, signed)]++
	}
	t.Logf("%d kills left the old file, %d the new one", seen[false], seen[true])
	p.run("pack", "sign", "../pack", "--key", "../keys/pack")
	if a := sign.Authenticate(p.read("pack"), p.key("pack"), p.key("gate")); !a.Signed || a.Recorded == nil {
		t.Errorf("%+v", a)
	}
}

// TestSignTogether: processes that sign one pack at the same time lose no signature. Each
// has signed, or says that it has not.
func TestSignTogether(t *testing.T) {
	t.Parallel()
	p := newPacked(t, packedIntent)
	const signers = 8
	var names []string
	var running []*exec.Cmd
	for i := range signers {
		name := "key" + string(rune('a'+i))
		p.run("pack", "keygen", "--name", name, "--key", "../keys/"+name)
		names = append(names, name)
	}
	for _, name := range names {
		cmd := p.command("pack", "sign", "../pack", "--key", "../keys/"+name)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	var did []string
	for i, cmd := range running {
		switch err := cmd.Wait(); {
		case err == nil:
			did = append(did, names[i])
		case cmd.ProcessState.ExitCode() != cli.ExitError || !strings.Contains(cmd.Stdout.(*bytes.Buffer).String(), "another process"):
			t.Errorf("%s: %v: %s", names[i], err, cmd.Stdout)
		}
	}
	got := p.read("pack")
	for _, name := range did {
		if a := sign.Authenticate(got, p.key(name), nil); !a.Signed {
			t.Errorf("%s has signed, and its signature is lost: %+v", name, a)
		}
	}
	if len(did) == 0 {
		t.Error("nobody has signed")
	}
	if beside, err := filepath.Glob(filepath.Join(p.dir, ".pack*")); err != nil || len(beside) > 0 {
		t.Errorf("beside the pack stand %v, %v", beside, err)
	}
}
