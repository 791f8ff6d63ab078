package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
)

// On a full disk records and blobs are refused, and nothing is promised. When there is
// space again the server goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1500k"); err != nil {
		t.Skipf("no disk can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	p.dir = filepath.Join(disk, "log")
	r := p.start(server.Config{})
	r.accepted(begun("run-0"), r.post(begun("run-0")))
	r.log(2)

	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	check(t, err)
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			break
		}
	}
	check(t, f.Close())
	promised := 1
	refusals := 0
	for i := range 40 { // the last page of the claims may have space
		rec := begun(fmt.Sprintf("run-%d", i+1))
		if got := r.post(rec); got.status == 200 {
			r.accepted(rec, got)
			promised++
		} else {
			r.refused("a record", got, 500, "storage")
			refusals++
		}
	}
	if refusals == 0 {
		t.Error("the disk is not full")
	}
	r.refused("a blob", r.put(bytes.Repeat([]byte("x"), 100_000)), 500, "storage")
	check(t, os.Remove(filler))
	for i := range 40 {
		rec := begun(fmt.Sprintf("run-%d", i+1))
		r.accepted(rec, r.retry(rec))
	}
	if n := len(r.log(42)); n != 42 {
		t.Errorf("the log has %d records; %d were promised on the full disk", n, promised)
	}
	if got := r.put([]byte("a blob")); got.status != 204 {
		t.Errorf("a blob: %d", got.status)
	}
}

// A server does not start on a disk that is read-only, and changes nothing. A running server
// keeps a disk from becoming read-only, unless the disk fails: then writes fail as on a full one.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, ""); err != nil {
		t.Skipf("no disk can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	p.dir = filepath.Join(disk, "log")
	r := p.start(server.Config{})
	r.accepted(begun("run-0"), r.post(begun("run-0")))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err == nil {
		t.Error("the disk of a running server became read-only")
	}
	check(t, r.stop())
	// A process that another test is starting can have the files for a moment.
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			check(t, err)
			break
		}
	}
	if r, err := p.tryStart(server.Config{}); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("started: %v\n%s", err, r.stderr)
	}
	check(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, ""))
	p.same(1, 0)
}
