package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/claims"
	"github.com/fiador/fiador/ledger/disk"
)

const (
	littleSpace   = 256 << 20 // bytes
	writeAndEnter = 2 | 1     // W_OK and X_OK of access(2)
)

// volatile are file systems in memory, by their number on Linux.
func volatile(magic int64) bool { return magic == 0x01021994 || magic == 0x858458f6 }

// inspectFolder says what is known of a folder that has a log, or gets one.
func inspectFolder(dir string, say findings) {
	if err := disk.CheckFileSystem(dir); err != nil {
		say.fault("storage", "%v", err)
		return
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		say.fault("storage", "%v", err)
		return
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	switch err := syscall.Access(dir, writeAndEnter); {
	case err != nil:
		say.fault("storage", "this user cannot write to the folder: %v; give it to the user of the server", err)
	case volatile(int64(uint32(st.Type))):
		say.fault("storage", "the folder lies in memory, which ends with the machine: use a disk")
	case free < littleSpace:
		say.fault("storage", "only %d MiB are free: free some space", free>>20)
	default:
		say.ok("storage", "the folder lies on a local file system, can be written to, and %d MiB are free", free>>20)
	}
	say.note("storage", "nobody can know from here whether the disk keeps what it reports as written")
}

// inspectParent says whether a log can be made in a folder that is not there.
func inspectParent(dir string, say findings) {
	say.note("origin", "there is no log yet; fiador-ledgerd serve makes it")
	parent := filepath.Dir(filepath.Clean(dir))
	if _, err := os.Stat(parent); err != nil {
		say.fault("storage", "the folder above is missing: make it")
		return
	}
	inspectFolder(parent, say)
}

func (p *posix) inspect(say findings) {
	inspectFolder(p.dir, say)
	f, err := p.root.Open(nameLock)
	if errors.Is(err, fs.ErrNotExist) {
		say.ok("server", "none has started here")
		return
	}
	if err != nil {
		say.fault("server", "%v", err)
		return
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	f.Close() // at once, for a server that starts now
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		say.note("server", "one writes to this log now")
	case err != nil:
		say.fault("server", "the lock cannot be looked at: %v", err)
	default:
		say.ok("server", "none writes to this log now")
	}
}

// claimed reads as much of the claims as is there now. What follows may be half written.
func (p *posix) claimed(_ int64, log claims.Log) (fit int64, err error) {
	f, err := p.root.Open(claims.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size, err := p.size() // after the claims, whose indexes are then in the log
	if err != nil {
		return 0, err
	}
	return claims.InFile(f, nil).Fit(info.Size(), size, log)
}

func (d *database) inspect(say findings) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	var readOnly bool
	switch err := d.db.QueryRowContext(ctx, "SELECT @@global.read_only").Scan(&readOnly); {
	case err != nil:
		say.fault("storage", "the database: %v", err)
		return
	case readOnly:
		say.fault("storage", "the database is read-only: name the one that takes writes")
	default:
		if err := d.durable(ctx); err != nil {
			say.fault("storage", "%v", err)
		} else {
			say.ok("storage", "the database can be written to and syncs each transaction, and the bucket answers")
		}
	}
	say.note("storage", "nobody can know from here whether the disks of the database and the bucket keep what they report as written")
	say.note("server", "the lock is one of this database server: other nodes of a cluster (Galera, group replication) do not know it, so all servers name the same node")
	var holder *int64
	switch err := d.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+lockName+")").Scan(&holder); {
	case err != nil:
		say.fault("server", "the lock cannot be looked at: %v", err)
	case holder != nil:
		say.note("server", "one writes to this log now")
	default:
		say.ok("server", "none writes to this log now")
	}
}

func (d *database) claimed(size int64, log claims.Log) (int64, error) {
	return claims.InTable(d.db, 0, nil).Fit(size, log)
}
