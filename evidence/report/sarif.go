package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
)

const (
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	sarifVersion = "2.1.0"

	// projectURI leads to the program, and to its pages of the branch main.
	projectURI = "https://github.com/fiador/fiador"
	pagesURI   = projectURI + "/blob/main/"

	// stdinURI stands for an intent from standard input, which is no file.
	stdinURI = "stdin"
)

// Limits of GitHub on a rule, in UTF-16 code units.
const (
	sarifName        = 255
	sarifDescription = 1024
)

// sarif writes one run of SARIF 2.1.0 with a result for each finding. The rules come
// before the results, so sarif keeps all results until Close.
type sarif struct {
	w       io.Writer
	rules   map[string]sarifRule
	sources []source
	results []sarifResult
	seen    map[[sha256.Size]byte]int // number of findings with the same values, without the ordinal

	limit, left int // most results, 0: any number; and how many are left out
}

func newSARIF(w io.Writer) *sarif {
	return &sarif{w: w, rules: map[string]sarifRule{}, seen: map[[sha256.Size]byte]int{}}
}

// source is a file, or a line of it, that a row is about.
type source struct {
	path   string
	line   int
	sha256 [sha256.Size]byte
	read   bool
}

type sarifRule struct {
	id, title, why, fix, level, layer, page string
}

type sarifResult struct {
	rule, level, text string
	pointer           string
	hasPointer        bool
	source            int
	region            region
	print             [sha256.Size]byte
	outcome, layer    string
	fix               string
}

func (s *sarif) Item(i Item) error { return s.row(rowOf(i)) }

func (s *sarif) row(r row) error {
	src := source{path: r.path, line: r.line, read: r.sha256.Valid()}
	if src.read {
		if _, err := hex.Decode(src.sha256[:], []byte(r.sha256.Hex())); err != nil {
			return err
		}
	}
	s.sources = append(s.sources, src)
	for _, f := range r.findings {
		if s.limit > 0 && len(s.results) == s.limit {
			s.left++
			continue
		}
		s.addRule(f)
		key := cmp.Or(f.key, f.text)
		first := fingerprint(f.id, r.path, key, 0)
		s.seen[first]++
		s.results = append(s.results, sarifResult{
			rule: f.id, level: f.level, text: strings.Clone(message(squeeze("\n", screen.Plain(f.text), screen.Plain(f.advice())))),
			pointer: strings.Clone(f.pointer), hasPointer: f.hasPointer,
			source: len(s.sources) - 1, region: f.region,
			print:   fingerprint(f.id, r.path, key, s.seen[first]),
			outcome: r.outcome, layer: f.layer, fix: strings.Clone(screen.Plain(cmp.Or(f.fix, f.help))),
		})
	}
	return nil
}

// fingerprint identifies a finding without its place. So it stays the same if something
// else is inserted before the finding.
func fingerprint(rule, path, key string, ordinal int) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", rule, path, key, ordinal))
}

// addRule keeps the description of a rule, with the strongest level of its findings. If
// several layers use one id, addRule keeps the words of the first layer by name, which
// is the built-in one.
func (s *sarif) addRule(f finding) {
	r, known := s.rules[f.id]
	if !known || f.layer < r.layer {
		r = sarifRule{id: f.id, title: strings.Clone(f.title), why: strings.Clone(f.why), level: r.level, layer: f.layer, page: f.page}
	}
	if r.fix == "" && f.layer == r.layer {
		r.fix = strings.Clone(f.help)
	}
	r.level = stronger(r.level, f.level)
	s.rules[f.id] = r
}

func stronger(a, b string) string {
	order := []string{"", levelNote, levelWarning, levelError}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// message returns a SARIF message string that contains only text: braces are doubled
// (3.11.5), and there are no links (3.11.6).
func message(text string) string {
	return strings.NewReplacer("{", "{{", "}", "}}", "](", "] (").Replace(text)
}

func (s *sarif) Close(sum Summary) error {
	return s.close(sum.KernelVersion, invocation(sum), sarifProperties{sum.Profile, sum.ReportOnly})
}

// close writes the run. version is the version of the program that judged.
func (s *sarif) close(version string, run sarifInvocation, properties any) error {
	rules := slices.SortedFunc(maps.Values(s.rules), func(a, b sarifRule) int { return cmp.Compare(a.id, b.id) })
	index := make(map[string]int, len(rules))
	for k, r := range rules {
		index[r.id] = k
	}
	artifacts, artifactOf := s.artifacts()
	if s.left > 0 {
		text := screen.Count(s.left, "more result") + " left out: the format junit has them all"
		run.Notes = []sarifNote{{Level: levelWarning, Message: wireText{text}}}
	}

	out := jsonWriter{w: bufio.NewWriter(s.w)}
	out.text(`{"$schema":`).value(sarifSchema).text(`,"version":`).value(sarifVersion)
	out.text(",\"runs\":[{\n\"tool\":{\"driver\":{\"name\":\"fiador\",\"informationUri\":").value(projectURI)
	if version != "" {
		out.text(`,"version":`).value(version)
	}
	out.text(`,"rules":`).list(len(rules), func(k int) any { return rules[k].wire() })
	out.text("}},\n\"columnKind\":\"utf16CodeUnits\",\n\"invocations\":").value([]any{run})
	out.text(",\n\"properties\":").value(properties)
	out.text(",\n\"artifacts\":").list(len(artifacts), func(k int) any { return artifacts[k] })
	out.text(",\n\"results\":").list(len(s.results), func(k int) any {
		r := s.results[k]
		return r.wire(index[r.rule], s.sources[r.source], artifactOf[r.source])
	})
	if out.text("}]}\n"); out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

type sarifProperties struct {
	Profile    string `json:"profile"`
	ReportOnly bool   `json:"reportOnly"`
}

type sarifInvocation struct {
	Successful bool        `json:"executionSuccessful"`
	ExitCode   int         `json:"exitCode"`
	Notes      []sarifNote `json:"toolExecutionNotifications,omitempty"`
}

type sarifNote struct {
	Level   string   `json:"level"`
	Message wireText `json:"message"`
}

// invocation has the exit code of the run: 2 if a decision is missing.
func invocation(sum Summary) sarifInvocation {
	code := sum.Status()
	return sarifInvocation{Successful: code < 2, ExitCode: code}
}

// artifacts lists the files, each once, and for each source the index of its
// file. An intent of a JSON Lines file is an artifact within that file.
func (s *sarif) artifacts() ([]artifact, []int) {
	var list []artifact
	known := map[source]int{}
	add := func(key source, a artifact) int {
		k, ok := known[key]
		if !ok {
			k = len(list)
			known[key] = k
			list = append(list, a)
		}
		return k
	}
	fileOf := make([]int, len(s.sources))
	for k, src := range s.sources {
		var hashes map[string]string
		if src.read {
			hashes = map[string]string{"sha-256": hex.EncodeToString(src.sha256[:])}
		}
		file := artifact{Location: &artifactLocation{URI: uri(src.path)}, Roles: []string{"analysisTarget"}}
		if src.path == "-" {
			file.Location.Description = &wireText{"standard input"}
		}
		if src.line == 0 {
			file.Hashes = hashes
		}
		fileOf[k] = add(source{path: src.path}, file)
		if src.line > 0 {
			add(source{path: src.path, line: src.line}, artifact{
				ParentIndex: &fileOf[k], Description: &wireText{fmt.Sprintf("line %d", src.line)},
				Roles: []string{"analysisTarget"}, Hashes: hashes,
			})
		}
	}
	return list, fileOf
}

// uri returns a path as a relative URI: all characters except unreserved ones and the
// slash are percent-encoded.
func uri(path string) string {
	if path == "-" {
		return stdinURI
	}
	if strings.HasPrefix(path, "//") {
		path = "/" + strings.TrimLeft(path, "/") // two slashes would begin the name of a host (RFC 3986, 4.2)
	}
	var b strings.Builder
	for _, c := range []byte(path) {
		switch {
		case isWord(c), strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// name returns the name of a rule in the form of SARIF: its id, and for an id of one word,
// which a name may not repeat, its title. A rule without another name has none.
func (r sarifRule) name() string {
	for _, text := range []string{strings.ToLower(r.id), r.title} {
		if name := pascal(text); !strings.EqualFold(name, r.id) {
			return cut(name, sarifName)
		}
	}
	return ""
}

// pascal joins the words of a text, each with a capital.
func pascal(text string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r > 0x7f || !isWord(byte(r)) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// isWord reports whether a character is an ASCII letter or digit.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
