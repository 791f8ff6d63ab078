package transcriptcmd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
)

// showTranscriptFlags are the flags of show. stream is empty for both streams. tail is
// how many of the last lines are shown, and 0 for all.
type showTranscriptFlags struct {
	view   string
	stream string
	tail   int64
}

var (
	transcriptViews   = []string{"merged", "split", "summary"}
	transcriptStreams = []string{"stdout", "stderr"}
)

func showCommand(a *cli.App) *cobra.Command {
	f := showTranscriptFlags{view: "merged"}
	cmd := &cobra.Command{
		Use:   "show LOG",
		Short: "show what the command of a log wrote",
		Long: `Show prints what a command wrote, in one of these views:

  merged   the lines of both streams in the order in which they came
  split    both streams one after the other, with the headings of the log
  summary  the command, its exit code, what safe-run noted, and how much there was

--stream chooses one stream. --tail chooses the last lines: in the view split, the last
lines of each stream.

The bytes are those that the command wrote, exactly, so that they can be compared and
searched. Only on a terminal show prints a page for people. The command stands at the
top, notes and the exit code at the bottom. Lines of standard error are yellow; without
colour, each line is marked "out" or "err". Characters that do not show are escaped, so
that no output can move the cursor or pass for something else.

Exit codes:
  0  shown
  2  not a log, not whole, or it could not be read`,
		Example: `  fiador transcript show run.log
  fiador transcript show run.log --tail 20
  fiador transcript show run.log --stream stderr | grep -n warning
  fiador transcript show run.log --view summary`,
		Args: cli.ExactArgs("LOG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return showTranscript(cmd.Context(), a, args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.view, "view", f.view, strings.Join(transcriptViews, ", "))
	flags.StringVar(&f.stream, "stream", "", "only one stream: stdout or stderr")
	flags.Int64Var(&f.tail, "tail", 0, "only the last `N` lines")
	cli.Complete(cmd, "view", transcriptViews...)
	cli.Complete(cmd, "stream", transcriptStreams...)
	return cmd
}

// check refuses unknown values and flags that contradict each other. changed reports
// whether a flag was given.
func (f showTranscriptFlags) check(changed func(string) bool) error {
	if err := cli.Choice("view", f.view, transcriptViews); err != nil {
		return err
	}
	if changed("stream") {
		if err := cli.Choice("stream", f.stream, transcriptStreams); err != nil {
			return err
		}
	}
	switch {
	case changed("tail") && f.tail < 1:
		return cli.Usage("a number from 1 on", "--tail %d shows nothing", f.tail)
	case f.view == "split" && f.stream != "":
		return cli.Unfit("leave one of them out", "--view split has both streams, and --stream is for one")
	case f.view == "summary" && (f.stream != "" || f.tail > 0):
		return cli.Unfit("leave --view out", "--view summary has no lines to choose from")
	}
	return nil
}

// shownLog is a log with the flags and the output of show.
type shownLog struct {
	*transcript.Log
	showTranscriptFlags
	n   [3]int64 // lines of each stream
	out *bufio.Writer
	t   cli.Terminal
	tty bool
	in  [3]*bufio.Reader // sources of the lines of each stream
}

// showTranscript prints a log in one of its views. Without a terminal the bytes are
// exactly those that the command wrote. A log that is not whole prints nothing and is
// exit status 2 (specs/safe-run.md, Reading back).
func showTranscript(ctx context.Context, a *cli.App, name string, f showTranscriptFlags) error {
	l, err := openLog(ctx, a, name)
	if err != nil {
		return err
	}
	defer l.close()
	log, err := l.whole()
	if err != nil {
		return err
	}
	out := pageWriter(a)
	s := shownLog{Log: log, showTranscriptFlags: f, out: out, t: cli.Terminal{W: out, Color: a.Page.Color}, tty: a.OutTTY}
	for i, section := range [...]*io.SectionReader{transcript.Stdout: log.Stdout(), transcript.Stderr: log.Stderr()} {
		if section != nil {
			s.in[i] = bufio.NewReaderSize(section, 64<<10)
		}
	}
	if s.tty || s.tail > 0 || s.view == "summary" {
		if s.n, err = lineCounts(log); err != nil {
			return l.unread(err)
		}
	}
	l.quiet()
	switch {
	case s.view == "summary":
		s.summary()
	case s.tty:
		err = s.page()
	default:
		err = s.lines()
	}
	if err != nil {
		return l.unread(err)
	}
	return cli.Flush(out)
}

// summary prints the facts of the log without its lines.
func (s *shownLog) summary() {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(s.out, "%-9s  %s\n", name, screen.Plain(fmt.Sprintf(format, args...)))
	}
	row("command", "%s", s.Command())
	row("exit code", "%d", s.Code())
	for _, note := range s.Notes() {
		row("note", "%s", note)
	}
	row("stdout", "%s, %s", screen.Count(s.n[transcript.Stdout], "line"), screen.Count(s.Stdout().Size(), "byte"))
	row("stderr", "%s, %s", screen.Count(s.n[transcript.Stderr], "line"), screen.Count(s.Stderr().Size(), "byte"))
}

// page prints a log for a terminal. A line of the command cannot imitate a message of
// safe-run: it has a mark, or has no colour of its own.
func (s *shownLog) page() error {
	s.t.Line(s.t.Paint(screen.Bold, "$ "+screen.Plain(s.Command())))
	if err := s.lines(); err != nil {
		return err
	}
	for _, note := range s.Notes() {
		s.t.Line(s.t.Paint(screen.Dim, screen.Plain(note)))
	}
	style := screen.Red
	if s.Code() == 0 {
		style = screen.Green
	}
	s.t.Line(s.t.Paint(style, fmt.Sprintf("exit code %d", s.Code())) + s.t.Paint(screen.Dim, fmt.Sprintf("; %s of stdout, %s of stderr",
		screen.Count(s.n[transcript.Stdout], "line"), screen.Count(s.n[transcript.Stderr], "line"))))
	return nil
}

// lines prints the lines that the flags select.
func (s *shownLog) lines() error {
	const stdout, stderr = transcript.Stdout, transcript.Stderr
	switch {
	case s.view == "split":
		for _, stream := range []transcript.Stream{stdout, stderr} {
			heading := "=== " + stream.String() + " ==="
			if s.tty {
				heading = s.t.Paint(screen.Bold, heading)
			}
			s.t.Line(heading)
			if err := s.last(s.n[stream], s.only(stream)); err != nil {
				return err
			}
			if !s.tty {
				s.out.WriteByte('\n') // as in a log file
			}
		}
		return nil
	case s.stream == "stdout":
		return s.last(s.n[stdout], s.only(stdout))
	case s.stream == "stderr":
		return s.last(s.n[stderr], s.only(stderr))
	case !s.tty && s.tail == 0:
		return s.WriteMerged(s.out)
	}
	return s.last(s.n[stdout]+s.n[stderr], s.order())
}

// order yields the stream of each line, in the order of arrival.
func (s *shownLog) order() iter.Seq2[transcript.Stream, error] {
	return func(yield func(transcript.Stream, error) bool) {
		for e, err := range s.Events() {
			if err == nil && e.Stream == transcript.Meta {
				continue
			}
			if !yield(e.Stream, err) || err != nil {
				return
			}
		}
	}
}

// only yields a stream once for each of its lines.
func (s *shownLog) only(stream transcript.Stream) iter.Seq2[transcript.Stream, error] {
	return func(yield func(transcript.Stream, error) bool) {
		for {
			_, err := s.in[stream].Peek(1)
			if err == io.EOF || !yield(stream, err) || err != nil {
				return
			}
		}
	}
}

// last prints the last of total lines. Each stream in order supplies its next line.
func (s *shownLog) last(total int64, order iter.Seq2[transcript.Stream, error]) error {
	skip := int64(0)
	if s.tail > 0 {
		skip = max(0, total-s.tail)
	}
	if skip > 0 && s.tty {
		s.t.Line(s.t.Paint(screen.Dim, "("+screen.Count(skip, "earlier line")+")"))
	}
	for stream, err := range order {
		if err != nil {
			return err
		}
		put := s.put
		switch skip--; {
		case skip >= 0:
			put = func(transcript.Stream, piece) error { return nil }
		case s.tty:
			put = s.show
		}
		if err := each(s.in[stream], func(p piece) error { return put(stream, p) }); err != nil {
			return err
		}
	}
	return nil
}

// piece is a line, or a part of a long line. It does not end within a character, or
// between CR and LF.
type piece struct {
	text        []byte
	first, last bool
}

// put writes a piece as it is.
func (s *shownLog) put(_ transcript.Stream, p piece) error {
	_, err := s.out.Write(p.text)
	return err
}

// show writes a piece for a terminal. A tab is the only character that moves the cursor.
func (s *shownLog) show(stream transcript.Stream, p piece) error {
	text, mark, style := p.text, "out | ", ""
	if line, ended := bytes.CutSuffix(text, []byte("\n")); ended {
		text = bytes.TrimSuffix(line, []byte("\r"))
	}
	if stream == transcript.Stderr {
		mark, style = "err | ", screen.Yellow
	}
	if s.t.Color || !p.first {
		mark = ""
	}
	parts := strings.Split(string(text), "\t")
	for i := range parts {
		parts[i] = screen.Plain(parts[i])
	}
	_, err := s.out.WriteString(mark + s.t.Paint(style, strings.Join(parts, "\t")))
	if err == nil && p.last {
		err = s.out.WriteByte('\n')
	}
	return err
}

// each takes the next line from r and calls f with each piece. A piece is valid until f
// returns.
func each(r *bufio.Reader, f func(piece) error) error {
	for first := true; ; first = false {
		b, err := held(r)
		if err == io.EOF && !first {
			err = nil // the line ended with the previous piece
		}
		if err != nil {
			return err
		}
		p := piece{b, first, len(b) < r.Size()}
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			p.text, p.last = b[:i+1], true
		} else if !p.last {
			p.text = b[:len(b)-unfinished(b)]
		}
		if err := f(p); err != nil {
			return err
		}
		if _, err := r.Discard(len(p.text)); err != nil || p.last {
			return err
		}
	}
}

// held returns the next bytes of r and leaves them in r. The bytes have an LF, or fill the
// buffer of r, or are the whole rest. It returns at least one byte, or an error.
func held(r *bufio.Reader) ([]byte, error) {
	b, _ := r.Peek(r.Buffered())
	if bytes.IndexByte(b, '\n') >= 0 {
		return b, nil
	}
	b, err := r.Peek(r.Size())
	if err == io.EOF && len(b) > 0 {
		err = nil
	}
	return b, err
}

// unfinished returns how many bytes at the end of b may be the start of a character or of
// CRLF.
func unfinished(b []byte) int {
	if b[len(b)-1] == '\r' {
		return 1
	}
	for n := 1; n < utf8.UTFMax; n++ {
		if c := b[len(b)-n:]; utf8.RuneStart(c[0]) {
			if utf8.FullRune(c) {
				break
			}
			return n
		}
	}
	return 0
}
