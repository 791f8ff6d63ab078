package verify

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
)

// TestMain lets the program of the tests be b3sum, where that is not installed.
func TestMain(m *testing.M) {
	if os.Getenv("FIADOR_TEST_B3SUM") == "" {
		os.Exit(m.Run())
	}
	h, _, err := receipt.Copy(io.Discard, os.Stdin)
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(h.Hex() + "  -\n")
}

// TestPageScript: the script in specs/work.md makes the hashes of receipts again, with bash, jq
// and b3sum alone, and finds those that are wrong.
func TestPageScript(t *testing.T) {
	for _, name := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed: the script does not run")
		}
	}
	page, err := os.ReadFile("../../../specs/work.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Receipt\n")
	_, script, _ := strings.Cut(section, "```bash\n")
	script, _, ok := strings.Cut(script, "```")
	if !ok {
		t.Fatal("the page has no script")
	}
	env := os.Environ()
	if _, err := exec.LookPath("b3sum"); err != nil {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "b3sum"), []byte("#!/bin/sh\nFIADOR_TEST_B3SUM=1 exec '"+self+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		env = append(env, "PATH="+dir+":"+os.Getenv("PATH"))
	}
	run := func(d draft) (string, error) {
		dir := t.TempDir()
		d.faults(t, dir)
		cmd := exec.Command("bash", "-e", "-c", script, "script", dir)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for name, base := range genuine(t) {
		if out, err := run(draftOf(t, base)); err != nil || out != "" {
			t.Errorf("%s: %s (%v)", name, out, err)
		}
	}
	const zeros = "blake3:0000000000000000000000000000000000000000000000000000000000000000"
	node := "nodes/" + draftOf(t, genuine(t)["success"]).value(receipt.ReceiptFile + "#/core/before").(string)[len("blake3:"):]
	for place, to := range map[string]any{
		"RECEIPT.json#/core_hash": zeros, "RECEIPT.json#/receipt_hash": zeros, "RECEIPT.json#/receipt_id": "00000000-0000-8000-8000-000000000000",
		"RECEIPT.json#/core/status": "failure", "RECEIPT.json#/ephemeral/run_id": "x", "RECEIPT.json#/previous": zeros,
		"item.json#/item/id": "x", "stdout": "x", node: "x",
	} {
		d := draftOf(t, genuine(t)["success"])
		if err := d.at(place, to); err != nil {
			t.Fatal(err)
		}
		if out, err := run(d); err == nil || !strings.Contains(out, ", and not ") {
			t.Errorf("%s: %q (%v)", place, out, err)
		}
	}
}
