package storage

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
func inspectFolder(dir string, say Findings) {
	if err := disk.CheckFileSystem(dir); err != nil {
		say.Fault("storage", "%v", err)
		return
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		say.Fault("storage", "%v", err)
		return
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	switch err := syscall.Access(dir, writeAndEnter); {
	case err != nil:
		say.Fault("storage", "this user cannot write to the folder: %v; give it to the user of the server", err)
	case volatile(int64(uint32(st.Type))):
		say.Fault("storage", "the folder lies in memory, which ends with the machine: use a disk")
	case free < littleSpace:
		say.Fault("storage", "only %d MiB are free: free some space", free>>20)
	default:
		say.OK("storage", "the folder lies on a local file system, can be written to, and %d MiB are free", free>>20)
	}
	say.Note("storage", "nobody can know from here whether the disk keeps what it reports as written")
}

// InspectParent says whether a log can be made in a folder that is not there.
func InspectParent(dir string, say Findings) {
	say.Note("origin", "there is no log yet; fiador-ledgerd serve makes it")
	parent := filepath.Dir(filepath.Clean(dir))
	if _, err := os.Stat(parent); err != nil {
		say.Fault("storage", "the folder above is missing: make it")
		return
	}
	inspectFolder(parent, say)
}

// Inspect implements Storage.
func (p *Posix) Inspect(say Findings) {
	inspectFolder(p.dir, say)
	f, err := p.root.Open(nameLock)
	if errors.Is(err, fs.ErrNotExist) {
		say.OK("server", "none has started here")
		return
	}
	if err != nil {
		say.Fault("server", "%v", err)
		return
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	f.Close() // at once, for a server that starts now
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		say.Note("server", "one writes to this log now")
	case err != nil:
		say.Fault("server", "the lock cannot be looked at: %v", err)
	default:
		say.OK("server", "none writes to this log now")
	}
}

// Claimed reads as much of the claims as is there now. What follows may be half written.
func (p *Posix) Claimed(_ int64, log claims.Log) (fit int64, err error) {
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
	size, err := p.Size() // after the claims, whose indexes are then in the log
	if err != nil {
		return 0, err
	}
	return claims.InFile(f, nil).Fit(info.Size(), size, log)
}

// Inspect implements Storage.
func (d *Database) Inspect(say Findings) {
	ctx, cancel := context.WithTimeout(context.Background(), claims.QueryTime)
	defer cancel()
	var readOnly bool
	switch err := d.db.QueryRowContext(ctx, "SELECT @@global.read_only").Scan(&readOnly); {
	case err != nil:
		say.Fault("storage", "the database: %v", err)
		return
	case readOnly:
		say.Fault("storage", "the database is read-only: name the one that takes writes")
	default:
		if err := d.durable(ctx); err != nil {
			say.Fault("storage", "%v", err)
		} else {
			say.OK("storage", "the database can be written to and syncs each transaction, and the bucket answers")
		}
	}
	say.Note("storage", "nobody can know from here whether the disks of the database and the bucket keep what they report as written")
	say.Note("server", "the lock is one of this database server: other nodes of a cluster (Galera, group replication) do not know it, so all servers name the same node")
	var holder *int64
	switch err := d.db.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+lockName+")").Scan(&holder); {
	case err != nil:
		say.Fault("server", "the lock cannot be looked at: %v", err)
	case holder != nil:
		say.Note("server", "one writes to this log now")
	default:
		say.OK("server", "none writes to this log now")
	}
}

// Claimed implements Storage.
func (d *Database) Claimed(size int64, log claims.Log) (int64, error) {
	return claims.InTable(d.db, 0, nil).Fit(size, log)
}
