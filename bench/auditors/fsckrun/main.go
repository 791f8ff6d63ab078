// Command fsckrun audits a published ledger with Tessera's fsck, and tells by its
// exit status what fsck found:
//
//	fsckrun --key VKEY [--limit 60s] [--fsck PROGRAM] DIR|URL
//
// Fsck itself exits 0 when an audit fails, and waits forever when as many hash tiles
// are wrong as it has workers. So the status is 0 only if fsck ended in time with
// status 0 and the line that it ends a good audit with, for the size and root of
// its checkpoint. If the program is not named, it is the fsck that lies beside this
// one.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// workers is how many fsck has: fewer wrong hash tiles are named, more are a timeout.
const workers = 16

func main() {
	line, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fsckrun:", err)
		os.Exit(1)
	}
	fmt.Println("fsckrun: ok:", line)
}

func run(ctx context.Context, args []string) (string, error) {
	flags := flag.NewFlagSet("fsckrun", flag.ContinueOnError)
	key := flags.String("key", "", "the log's `verifier key`")
	limit := flags.Duration("limit", time.Minute, "the time that fsck has")
	program := flags.String("fsck", "", "the `program`; the default lies beside this one")
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	if flags.NArg() != 1 || *key == "" {
		return "", errors.New("--key and one DIR or URL are needed")
	}
	place, err := url.Parse(flags.Arg(0))
	if err == nil && place.Host == "" {
		place = &url.URL{Scheme: "file"}
		place.Path, err = filepath.Abs(flags.Arg(0))
	}
	if err != nil {
		return "", err
	}
	if *program == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		*program = filepath.Join(filepath.Dir(self), "fsck")
	}
	want, err := successLine(place.JoinPath("checkpoint"))
	if err != nil {
		return "", err
	}

	temp, err := os.MkdirTemp("", "fsckrun")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	keyFile := filepath.Join(temp, "key")
	if err := os.WriteFile(keyFile, []byte(*key), 0o600); err != nil {
		return "", err
	}

	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, *program, "--ui=false", fmt.Sprintf("--N=%d", workers),
		"--storage_url="+place.String(), "--public_key="+keyFile)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %v", *limit)
	}
	if err == nil {
		err = verdict(out, want)
	}
	if err != nil {
		os.Stderr.Write(out)
		return "", fmt.Errorf("fsck: %w", err)
	}
	return want, nil
}

// successLine is what fsck says of a tree that holds what the checkpoint
// promises. Whether its signature is good is for fsck to find out.
func successLine(checkpoint *url.URL) (string, error) {
	b, err := read(checkpoint)
	if err != nil {
		return "", err
	}
	lines := strings.SplitN(string(b), "\n", 4)
	if len(lines) < 4 {
		return "", fmt.Errorf("%q has fewer than three lines", checkpoint)
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil {
		return "", fmt.Errorf("%q: %w", checkpoint, err)
	}
	return fmt.Sprintf("Successfully fsck'd log with size %s and root %s (%x)", lines[1], lines[2], root), nil
}

// read reads a file or a resource of a server.
func read(place *url.URL) ([]byte, error) {
	if place.Scheme == "file" {
		return os.ReadFile(place.Path)
	}
	resp, err := http.Get(place.String())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", place, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 64<<10))
}

// verdict reads what fsck logged, in lines with a message after "] ": an audit is good
// if one is the success line and none reports a failure.
func verdict(out []byte, success string) error {
	found := false
	for line := range strings.Lines(string(out)) {
		_, message, _ := strings.Cut(strings.TrimSpace(line), "] ")
		if reason, failed := strings.CutPrefix(message, "fsck failed: "); failed {
			return errors.New(reason)
		}
		found = found || message == success
	}
	if !found {
		return fmt.Errorf("it does not say %q", success)
	}
	return nil
}
