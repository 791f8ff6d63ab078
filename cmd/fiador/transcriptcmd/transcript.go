// Package transcriptcmd has the commands that read the logs of safe-run: show, events and
// verify. It opens a log from a file or a pipe without holding all of it.
package transcriptcmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Transcript returns the group of commands that read logs of safe-run.
func Transcript(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "transcript",
		Short: "read back the logs of safe-run",
		Long: `Transcript reads a log of safe-run: what a command wrote to both its streams, and in
which order. It checks a log as a whole before it prints anything of it.

A LOG is a regular file, or "-": standard input, which may be a pipe. What comes from a
pipe is kept in memory or, from 1 MiB on, in a file without a name in TMPDIR.

Exit codes:
  0  done, and nothing is wrong
  1  a LOG is no log, or not whole (verify)
  2  no answer`,
		Example: `  fiador transcript show .agent/FAIL-LOGS/safe-run-20260131-120000-1f0a77c2.log
  fiador transcript verify .agent/FAIL-LOGS/*.log
  zcat run.log.gz | fiador transcript events - | jq -r 'select(.stream == "STDERR").text'`,
	}, showCommand(a), verifyCommand(a), eventsCommand(a))
}

// logFile is a log that can be read at any offset.
type logFile struct {
	watched
	size int64
	path string // name for messages
	file *os.File
	name string // path of a temporary file that close still has to remove
}

// close releases a log and removes its temporary file.
func (l *logFile) close() {
	l.quiet()
	if l.file != nil {
		l.file.Close()
	}
	if l.name != "" {
		os.Remove(l.name)
	}
}

// openLog opens a regular file, or standard input for "-".
func openLog(ctx context.Context, a *cli.App, name string) (*logFile, error) {
	l := &logFile{watched: watched{ctx: ctx, line: cli.NewProgress(a, 0)}, path: screen.Path(name)}
	var err error
	if name == "-" {
		err = openStdinLog(a, l)
	} else {
		err = l.open(name)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// open opens a regular file and refuses every other one. A reader that closes a pipe ends
// its writer, and a device may act on being opened.
func (l *logFile) open(name string) error {
	if err := l.regular(os.Stat(name)); err != nil {
		return err
	}
	// If the file has become a pipe meanwhile, the open does not wait.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return runerr.Unreadable(l.path, runerr.Reason(err), "")
	}
	l.file, l.r = f, f
	return l.regular(f.Stat())
}

// regular refuses a file that is not regular, and stores the size of a regular one.
func (l *logFile) regular(info os.FileInfo, err error) error {
	switch {
	case err != nil:
		return runerr.Unreadable(l.path, runerr.Reason(err), "")
	case info.IsDir():
		return runerr.Unreadable(l.path, "a folder, not a file", "name the file in it")
	case !info.Mode().IsRegular():
		return runerr.Unreadable(l.path, "not a regular file", `name a regular file, or "-" for standard input`)
	}
	l.size = info.Size()
	return nil
}

// openStdinLog opens standard input. It reads a regular file from the current offset. It
// reads any other input to its end first.
func openStdinLog(a *cli.App, l *logFile) error {
	info, err := a.Stdin.Stat()
	if err != nil {
		return runerr.Unreadable(l.path, runerr.Reason(err), "")
	}
	if !info.Mode().IsRegular() {
		return spool(a, l)
	}
	from, err := a.Stdin.Seek(0, io.SeekCurrent)
	if err != nil {
		return runerr.Unreadable(l.path, runerr.Reason(err), "")
	}
	l.size = max(0, info.Size()-from)
	l.r = io.NewSectionReader(a.Stdin, from, l.size)
	return nil
}

// inMemory is how many bytes of a pipe are kept in memory; a file holds more.
const inMemory = 1 << 20

// logBegins is the beginning of every log. An input with another beginning is no log, and
// is not stored in a file.
const logBegins = "=== STDOUT ===\n"

// spool reads standard input to its end and keeps it.
func spool(a *cli.App, l *logFile) error {
	var held bytes.Buffer
	for b, err := range a.Chunks(l.ctx, "-", math.MaxInt) {
		if err != nil {
			return err
		}
		l.size += int64(len(b))
		if l.file == nil {
			held.Write(b)
			if held.Len() < inMemory {
				continue
			}
			if !strings.HasPrefix(held.String()[:len(logBegins)], logBegins) {
				break
			}
			if err := l.nameless(); err != nil {
				return l.unspooled(err)
			}
			b = held.Bytes()
		}
		if _, err := l.file.Write(b); err != nil {
			return l.unspooled(err)
		}
	}
	if l.r = bytes.NewReader(held.Bytes()); l.file != nil {
		l.r = l.file
	}
	return nil
}

// nameless makes a temporary file and removes its name at once. Where that fails, close
// removes the name.
func (l *logFile) nameless() (err error) {
	if l.file, err = os.CreateTemp("", "fiador-*.spool"); err != nil {
		return err
	}
	if os.Remove(l.file.Name()) != nil {
		l.name = l.file.Name()
	}
	return nil
}

// unspooled returns the error for a pipe that cannot be kept.
func (l *logFile) unspooled(err error) error {
	return runerr.Unreadable(l.path, "it cannot be kept while it is read: "+runerr.Reason(err), "name a file, or a TMPDIR with room")
}

// check reads a whole log (specs/safe-run.md, Reading back). For a wrong log it returns
// a *transcript.FormatError, and for a log that cannot be read a RUN_E001.
func (l *logFile) check() (*transcript.Log, error) {
	debug.SetGCPercent(cli.UsualGC) // millions of lines allocate much
	log, err := transcript.Open(l, l.size)
	if err != nil && !errors.As(err, new(*transcript.FormatError)) {
		err = l.unread(err)
	}
	return log, err
}

// unread returns the error for a log that could not be read. It does not judge the log.
func (l *logFile) unread(err error) error {
	why, hint := runerr.Reason(err), "run it again"
	switch {
	case errors.Is(err, context.Canceled):
		why = "interrupted"
	case errors.Is(err, io.ErrUnexpectedEOF):
		why = "it became shorter while it was read"
	case errors.As(err, new(*transcript.FormatError)), errors.As(err, new(*transcript.RunError)): // the first check found no fault
		why = "it changed while it was read"
	default:
		hint = ""
	}
	return runerr.Unreadable(l.path, why, hint)
}

// whole is check for a command that needs a correct log: a fault becomes a RunError.
func (l *logFile) whole() (*transcript.Log, error) {
	log, err := l.check()
	fault, wrong := errors.AsType[*transcript.FormatError](err)
	if !wrong {
		return log, err
	}
	where, err := l.where(fault)
	if err != nil {
		return nil, err
	}
	return nil, runerr.New(result.CodeEvidence, l.path+": not a log of safe-run, or not whole: "+canon.Clean(where),
		"look at it as it is: a log is text, whatever is left of it", runerr.File(l.path), runerr.Because(fault))
}

// where describes the fault of a log, with the number of its line.
func (l *logFile) where(fault *transcript.FormatError) (string, error) {
	number, buf := 1, make([]byte, 64<<10)
	for off := int64(0); off < fault.Offset; {
		b := buf[:min(int64(len(buf)), fault.Offset-off)]
		n, err := l.ReadAt(b, off)
		if n < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return "", l.unread(err)
		}
		number += bytes.Count(b, []byte{'\n'})
		off += int64(n)
	}
	return "line " + strconv.Itoa(number) + ", " + fault.Error(), nil
}

// watched is a reader that ends with its context, and shows progress on a terminal.
type watched struct {
	ctx  context.Context
	r    io.ReaderAt
	line *cli.Progress // nil: nothing is shown
	read int64
}

// quiet ends the display of progress, before other output.
func (w *watched) quiet() {
	if w.line != nil {
		w.line.Clear()
		w.line = nil
	}
}

// ReadAt reads from the log and shows how much was read. It fails once the context is
// done.
func (w *watched) ReadAt(b []byte, off int64) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.r.ReadAt(b, off)
	if w.read += int64(n); w.line != nil {
		w.line.Show(fmt.Sprintf("checking the log: %d MB read", w.read>>20))
	}
	return n, err
}

// lineCounts returns the number of lines of each stream, indexed by stream.
func lineCounts(log *transcript.Log) (n [3]int64, err error) {
	for e, err := range log.Events() {
		if err != nil {
			return n, err
		}
		n[e.Stream]++
	}
	return n, nil
}

// pageWriter returns standard output with a large buffer.
func pageWriter(a *cli.App) *bufio.Writer { return bufio.NewWriterSize(a.Stdout, 64<<10) }
