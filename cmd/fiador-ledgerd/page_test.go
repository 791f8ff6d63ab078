package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestPage runs the commands of docs/shared-ledger.md, from the first to the last.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/shared-ledger.md")
	check(t, err)
	script := "set -euo pipefail\n"
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindAllSubmatch(page, -1) {
		script += string(block[1])
		if strings.Contains(string(block[1]), "serve") {
			script += "for i in $(seq 1200); do curl -sf http://127.0.0.1:8470/checkpoint >/dev/null && break; sleep 0.05; done\n"
		}
	}
	said, err := runPage(t, script)
	for try := 1; strings.Contains(said, "address already in use") && try < 5; try++ {
		said, err = runPage(t, script)
	}
	if err != nil || !strings.Contains(said, "1 receipt: 1 kept, 0 lost") || !strings.Contains(said, "\nmoved\n") {
		t.Errorf("%v\n%s", err, said)
	}
}

// runPage runs the commands of the page in a new folder, with a free port, which another program
// may take before the server.
func runPage(t *testing.T, script string) (said string, err error) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := free.Addr().String()
	check(t, free.Close())
	fiador, err := built()
	check(t, err)
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "fiador-ledgerd"), []byte("#!/bin/sh\nFIADOR_LEDGERD_TEST=1 exec "+os.Args[0]+` "$@"`+"\n"), 0o755))
	intent, err := os.ReadFile("../../examples/page.json")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "page.json"), intent, 0o644))
	script = strings.ReplaceAll(script, "127.0.0.1:8470", address)
	for _, side := range []string{"east", "west"} {
		w := newCosigner(t, side+".example/w")
		check(t, os.WriteFile(filepath.Join(dir, side+".pub"), []byte(w.verifier()+"\n"), 0o644))
		script = strings.ReplaceAll(script, "https://"+side+".example/witness", w.http.URL)
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + dir + ":" + filepath.Dir(fiador) + ":" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	check(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	text, readErr := os.ReadFile(out.Name())
	check(t, readErr)
	return string(text), err
}
