package applycmd

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/patch"
)

// The command names a file beyond one of these limits and does not compare its lines.
const (
	maxDiffBytes = 1 << 20
	maxDiffLines = 20_000
)

// showPatch writes the changes of a plan to standard output: a unified diff of each
// text, and a line for each other file. The number of files comes last.
func showPatch(a *cli.App, plan *patch.Plan) error {
	d := diffPrinter{Terminal: a.Page, runner: cli.InRunner(a.Env)}
	d.visible = a.OutTTY || a.Page.Color || d.runner
	for _, s := range plan.Steps {
		text, err := d.step(plan, s)
		if err != nil {
			return err
		}
		if err := printDiff(a, text); err != nil {
			return err
		}
	}
	created, modified, deleted := plan.Counts()
	return printDiff(a, fmt.Appendf(nil, "%s: %d created, %d modified, %d deleted\n", screen.Count(len(plan.Steps), "file"), created, modified, deleted))
}

// printDiff prints output of the time before any change. When standard output fails,
// standard error says that nothing was changed.
func printDiff(a *cli.App, text []byte) error {
	return cli.PrintStanding(a, text, "nothing was changed")
}

// diffPrinter writes the changes of files.
type diffPrinter struct {
	cli.Terminal
	visible bool // escape characters that are invisible or move the cursor
	runner  bool // the reader obeys ::command:: at the beginning of a line
}

// step returns the text for one step of a plan. That is a unified diff, or one line for
// a folder, a binary file, or a file above the limits.
func (d diffPrinter) step(plan *patch.Plan, s patch.Step) ([]byte, error) {
	if s.Folder {
		return fmt.Appendf(nil, "Folder %s: deleted, files and folders in it: %d\n", screen.Plain(s.Path), s.Entries), nil
	}
	if s.Before != nil && s.Before.Size > maxDiffBytes || s.After != nil && s.After.Size > maxDiffBytes {
		return d.named("Large", s), nil
	}
	before, err := plan.Old(s)
	if err != nil {
		return nil, err
	}
	after, err := s.Content()
	if err != nil {
		return nil, err
	}
	lf := []byte{'\n'}
	switch {
	case bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0:
		return d.named("Binary", s), nil
	case bytes.Count(before, lf) > maxDiffLines || bytes.Count(after, lf) > maxDiffLines:
		return d.named("Large", s), nil
	}
	return d.text(s, before, after), nil
}

// named returns the line for a file whose lines are not shown.
func (d diffPrinter) named(kind string, s patch.Step) []byte {
	line := kind + " file " + screen.Plain(s.Path) + ": "
	switch {
	case s.After == nil:
		line += fmt.Sprintf("deleted, %s %s", screen.Count(int(s.Before.Size), "byte"), s.Before.SHA256)
	case s.Before == nil:
		line += fmt.Sprintf("created, %s %s, mode %s", screen.Count(int(s.After.Size), "byte"), s.After.SHA256, mode(s.After))
	default:
		line += fmt.Sprintf("%s → %s %s", screen.Count(int(s.Before.Size), "byte"), screen.Count(int(s.After.Size), "byte"), s.After.SHA256)
		if s.Before.Executable != s.After.Executable {
			line += fmt.Sprintf(", mode %s → %s", mode(s.Before), mode(s.After))
		}
	}
	return []byte(line + "\n")
}

// text returns the diff of a text, with the headers that git writes.
func (d diffPrinter) text(s patch.Step, before, after []byte) []byte {
	old, new := fileName("a/"+s.Path), fileName("b/"+s.Path)
	head := []string{"diff --git " + old + " " + new}
	if strings.Contains(s.Path, " ") { // git ends a name with a blank like this
		old, new = old+"\t", new+"\t"
	}
	switch {
	case s.After == nil:
		head, new = append(head, "deleted file mode "+mode(s.Before)), "/dev/null"
	case s.Before == nil:
		head, old = append(head, "new file mode "+mode(s.After)), "/dev/null"
	case s.Before.Executable != s.After.Executable:
		head = append(head, "old mode "+mode(s.Before), "new mode "+mode(s.After))
	}
	lines := diff.Diff("a", before, "b", after)
	for range 3 { // skip the headers of Diff, which are absent when nothing differs
		_, lines, _ = bytes.Cut(lines, []byte{'\n'})
	}
	if len(lines) > 0 {
		head = append(head, "--- "+old, "+++ "+new)
	}
	var b bytes.Buffer
	for _, line := range head {
		b.WriteString(d.Paint(screen.Bold, line) + "\n")
	}
	for line := range bytes.Lines(lines) {
		d.line(&b, line)
	}
	return b.Bytes()
}

// line writes one line of a hunk.
func (d diffPrinter) line(b *bytes.Buffer, line []byte) {
	if !d.visible {
		b.Write(line)
		return
	}
	style := map[byte]string{'+': screen.Green, '-': screen.Red, '@': screen.Dim}[line[0]]
	cells := strings.Split(string(bytes.TrimSuffix(line, []byte{'\n'})), "\t")
	for i, c := range cells {
		cells[i] = screen.Plain(c)
	}
	text := strings.Join(cells, "\t")
	if d.runner && strings.HasPrefix(strings.TrimLeft(text, " \t"), "::") {
		text = strings.Replace(text, "::", `:\u003a`, 1)
	}
	b.WriteString(d.Paint(style, text) + "\n")
}

// mode returns the mode of a file as git writes it.
func mode(f *patch.FileState) string {
	if f.Executable {
		return "100755"
	}
	return "100644"
}

// fileName returns a name as the headers of a diff show it. A name that is ambiguous or
// has invisible characters stands in quotes, with those bytes in octal. git reads both
// forms as exactly that name.
func fileName(name string) string {
	if screen.Plain(name) == name && !strings.ContainsAny(name, "\"\\") && !strings.Contains(name, " /") {
		return name
	}
	b := []byte{'"'}
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch shown := name[i : i+n]; {
		case r == '"' || r == '\\':
			b = append(b, '\\', name[i])
		case r != '#' && screen.Plain(shown) == shown:
			b = append(b, shown...)
		default:
			for _, c := range []byte(shown) {
				b = fmt.Appendf(b, `\%03o`, c)
			}
		}
		i += n
	}
	return string(append(b, '"'))
}
