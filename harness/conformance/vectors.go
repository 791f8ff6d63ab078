package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// MaxFileBytes is the size limit of a file of vectors, in bytes.
const MaxFileBytes = 4 << 20

// The versions that this runner knows.
const (
	formatVersion   = "1.0"
	contractVersion = "v0.1.0"
)

// defaultDeadline is the deadline of a vector that names none. A hanging program takes
// this long; a slow machine must not reach it.
const defaultDeadline = 30 * time.Second

// Suite is the content of a file of vectors.
type Suite struct {
	Vectors []Vector       // the vectors of safe-run, in the order of the file
	Left    map[string]int // number of skipped vectors of other tools, by section
}

// Vector is one case: the call, and its required result.
type Vector struct {
	ID, Name string

	setup    setup
	command  invocation
	expected expectation
	deadline time.Duration
}

// setup is the content of the working folder before the program starts.
type setup struct {
	folders []entry
	files   []entry
	links   []entry
}

// entry is a file, a folder or a link.
type entry struct {
	path    string
	content string // of a file, or the target of a link
	mode    fs.FileMode
}

// invocation says how the program is called.
type invocation struct {
	args     []string
	env      map[string]string
	stdin    *string
	noStdin  bool // standard input is closed
	open     bool // standard input does not end
	goneOut  bool // nobody reads standard output
	goneErr  bool // nobody reads standard error
	signals  []sending
	template template
}

// sending is a signal that the program gets.
type sending struct {
	signal syscall.Signal
	name   string
	after  string // not before this text was seen on standard output
	file   bool   // not before the command has made the file "ready" in TMPDIR
	delay  time.Duration
}

// Embedded returns the suite of this version's own vectors.
func Embedded() (Suite, error) {
	files := specs.SafeRunVectors()
	src, err := fs.ReadFile(files, "vectors.json")
	if err != nil {
		return Suite{}, err
	}
	return Parse("vectors.json", src, files)
}

// Parse reads a file of vectors strictly: an unknown member is an error, and so is a
// missing golden log. name is the name of the file in messages. Golden logs are read
// from the folder expected of files. The error is a *FileError.
func Parse(name string, src []byte, files fs.FS) (Suite, error) {
	suite, err := parse(src, files)
	if fe, ok := err.(*FileError); ok {
		fe.File = name
	}
	return suite, err
}

func parse(src []byte, files fs.FS) (Suite, error) {
	doc, err := canon.Parse(src, MaxFileBytes)
	if err != nil {
		return Suite{}, &FileError{Msg: err.Error(), Cause: err}
	}
	suite := Suite{Left: map[string]int{}}
	var version, contract string
	err = object([]string{"version", "m0_contract_version", "vectors"}, map[string]field{
		"version":             oneOf(&version, formatVersion),
		"m0_contract_version": oneOf(&contract, contractVersion, "M0-"+contractVersion),
		"description":         ignored(),
		"vectors":             suite.sections(files),
		"templates":           named(func(string) field { return ignored() }),
	})(node{"", doc.Value()})
	return suite, err
}

// sections reads the vectors of safe-run, and counts the vectors of other tools.
func (s *Suite) sections(files fs.FS) field {
	seen := map[string]bool{}
	own := each(func(n node) error {
		v, err := parseVector(n, files)
		if err == nil && seen[v.ID] {
			err = n.fault("a second vector %q", canon.Cut(v.ID))
		}
		seen[v.ID] = true
		s.Vectors = append(s.Vectors, v)
		return err
	})
	return named(func(name string) field {
		if name == "safe_run" {
			return own
		}
		return each(func(node) error {
			s.Left[name]++
			return nil
		})
	}, "safe_run")
}

func parseVector(n node, files fs.FS) (Vector, error) {
	v := Vector{deadline: defaultDeadline}
	ms := int(defaultDeadline / time.Millisecond)
	err := object([]string{"id", "name", "command", "expected"}, map[string]field{
		"id":          some(&v.ID),
		"name":        some(&v.Name),
		"m0_spec":     texts(new([]string)),
		"description": ignored(),
		"setup":       v.setup.field(),
		"command":     v.command.field(),
		"expected":    v.expected.field(files),
		"deadline_ms": whole(&ms, 1, 600_000),
	})(n)
	v.deadline = time.Duration(ms) * time.Millisecond
	return v, err
}

func (s *setup) field() field {
	return object(nil, map[string]field{
		"folders": listOf(&s.folders, (*entry).folder),
		"files":   listOf(&s.files, (*entry).file),
		"links":   listOf(&s.links, (*entry).link),
	})
}

func (e *entry) folder() field {
	e.mode = 0o755
	return object([]string{"path"}, map[string]field{"path": local(&e.path), "mode": permissions(&e.mode)})
}

func (e *entry) file() field {
	e.mode = 0o644
	return object([]string{"path"}, map[string]field{
		"path": local(&e.path), "mode": permissions(&e.mode), "content": text(&e.content), "content_base64": encoded(&e.content),
	})
}

func (e *entry) link() field {
	return object([]string{"path", "to"}, map[string]field{"path": local(&e.path), "to": some(&e.content)})
}

// local reads a path that stays in the working folder.
func local(to *string) field {
	return textAs(to, func(s string) (string, error) {
		if !fs.ValidPath(s) || strings.ContainsRune(s, 0) || s == "." {
			return "", fmt.Errorf("%q is no clean path beneath the working folder", canon.Cut(s))
		}
		return s, nil
	})
}

func permissions(to *fs.FileMode) field {
	return textAs(to, func(s string) (fs.FileMode, error) {
		mode, err := strconv.ParseUint(s, 8, 9)
		if err != nil || len(s) != 4 {
			return 0, errors.New("must be four octal digits, as in \"0755\"")
		}
		return fs.FileMode(mode), nil
	})
}

func (c *invocation) field() field {
	var given bool
	var interrupt *sending
	argv := func(decode func(*string) field) field {
		return func(n node) error {
			if given {
				return n.fault("the command is given already")
			}
			given = true
			return listOf(&c.args, func(word *string) field {
				return func(n node) error {
					err := decode(word)(n)
					if err == nil && strings.ContainsRune(*word, 0) {
						err = n.fault("no argument can hold a NUL")
					}
					return err
				}
			})(n)
		}
	}
	members := map[string]field{
		"args":             argv(text),
		"args_base64":      argv(encoded),
		"env":              c.variables,
		"stdin":            givenText(&c.stdin, text),
		"stdin_base64":     givenText(&c.stdin, encoded),
		"stdin_closed":     boolean(&c.noStdin),
		"stdin_open":       boolean(&c.open),
		"stdout_gone":      boolean(&c.goneOut),
		"stderr_gone":      boolean(&c.goneErr),
		"signals":          each(c.signal),
		"interrupt_signal": interruption(&interrupt),
	}
	c.template.members(members)
	take := object(nil, members)
	return func(n node) error {
		if err := take(n); err != nil {
			return err
		}
		if err := c.template.fill(n, given, c, interrupt); err != nil {
			return err
		}
		if c.noStdin && (c.stdin != nil || c.open) {
			return n.fault("standard input that is closed holds nothing")
		}
		return nil
	}
}

func givenText(to **string, decode func(*string) field) field {
	return func(n node) error {
		if *to != nil {
			return n.fault("this is given already, in the other spelling")
		}
		return given(to, decode)(n)
	}
}

func (c *invocation) variables(n node) error {
	c.env = map[string]string{}
	return named(func(name string) field {
		return func(n node) error {
			var value string
			if err := text(&value)(n); err != nil {
				return err
			}
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
				return n.fault("no environment can hold this")
			}
			c.env[name] = value
			return nil
		}
	})(n)
}

func (c *invocation) signal(n node) error {
	var s sending
	ms := 0
	err := object([]string{"signal"}, map[string]field{
		"signal":   s.named(),
		"after":    some(&s.after),
		"delay_ms": whole(&ms, 0, 60_000),
	})(n)
	s.delay = time.Duration(ms) * time.Millisecond
	c.signals = append(c.signals, s)
	return err
}

// named reads the name of a signal that a program can catch, with or without SIG.
func (s *sending) named() field {
	return textAs(&s.signal, func(name string) (syscall.Signal, error) {
		s.name = strings.TrimPrefix(name, "SIG")
		known := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT}
		signal, ok := known[s.name]
		if !ok {
			return 0, fmt.Errorf("%q is none of TERM, INT, HUP, QUIT", canon.Cut(s.name))
		}
		return signal, nil
	})
}

func interruption(to **sending) field {
	return func(n node) error {
		*to = &sending{file: true}
		return (*to).named()(n)
	}
}

// goldenLog reads the name of a file in the folder expected, and the file's bytes.
func goldenLog(to *string, files fs.FS) field {
	return textAs(to, func(name string) (string, error) {
		if !fs.ValidPath(name) || strings.Contains(name, "/") {
			return "", fmt.Errorf("%q is no name of a file", canon.Cut(name))
		}
		b, err := fs.ReadFile(files, path.Join("expected", name))
		if err != nil {
			return "", fmt.Errorf("there is no golden log %q", canon.Cut(name))
		}
		return string(b), nil
	})
}

// expression reads a regular expression (RE2).
func expression(to **regexp.Regexp) field {
	return textAs(to, func(s string) (*regexp.Regexp, error) {
		re, err := regexp.Compile(s)
		if err != nil {
			return nil, fmt.Errorf("is no regular expression: %s", err)
		}
		return re, nil
	})
}
