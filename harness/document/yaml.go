package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
)

// A document may be YAML, as far as nobody can read it in two ways. What
// parseYAML accepts is one document of mappings, lists and scalars whose values
// are those of the JSON that they are turned into; it refuses
//
//   - a byte order mark, bytes that are not UTF-8, control characters, a
//     carriage return without a line feed, and the characters that end a line
//     in YAML 1.1 but not in 1.2 (U+0085, U+2028, U+2029);
//   - directives, a second document, anchors, aliases and tags, "!" included;
//   - a name twice in one mapping however it is quoted, merge keys, and names
//     that are no plain or quoted string on one line;
//   - nesting deeper than canon.MaxDepth, and every number and string that
//     canon.Parse refuses in JSON.
//
// A plain scalar is null, true or false if it is exactly that word, a number if
// JSON spells a number so, and else a string. One that some version of YAML reads
// as something else (yes, Off, ~, 0x1F, 017, 1_000, +1, 1:30, .inf, nothing at
// all) is refused with the advice to quote it, so that no limit means two things.
// Dates and times are strings: nothing in a document is a time of its own type.

// yamlFault says why and where a text is refused. The pointer leads to the innermost
// value with the fault. It is empty for the whole text, and if the text's structure is
// not known.
type yamlFault struct {
	line    int // from 1 on
	column  int // in characters, from 1 on; 0: the line is known only roughly
	pointer string
	msg     string
}

// parseYAML reads one strict YAML document. root has the lines of its values
// (yamlLine). Both are meaningless with a fault.
func parseYAML(src []byte) (doc canon.Document, root *yaml.Node, fault *yamlFault) {
	defer func() {
		if fault != nil { // a missing part at the end is reported behind the last line
			fault.line = min(max(fault.line, 1), 1+bytes.Count(src, []byte{'\n'}))
		}
	}()
	if fault := screenYAML(src); fault != nil {
		return canon.Document{}, nil, fault
	}
	root, fault = loadYAML(src)
	if fault != nil {
		return canon.Document{}, nil, fault
	}
	r := yamlReader{}
	if bytes.IndexByte(src, '!') >= 0 {
		for line := range bytes.SplitSeq(src, []byte{'\n'}) {
			r.lines = append(r.lines, bytes.Runes(line))
		}
	}
	value, fault := r.value(root, 1)
	if fault != nil {
		return canon.Document{}, nil, fault
	}
	text, err := canon.Canonical(value)
	if err == nil {
		doc, err = canon.Parse(text, len(text))
	}
	if ce, ok := errors.AsType[*canon.Error](err); ok {
		_, at := yamlNode(root, ce.Pointer)
		return canon.Document{}, nil, &yamlFault{line: at.Line, column: at.Column, pointer: ce.Pointer, msg: ce.Msg}
	}
	return doc, root, nil
}

// screenYAML refuses faults that the characters alone show.
func screenYAML(src []byte) *yamlFault {
	line, column, first, directives := 1, 1, true, true
	for i := 0; i < len(src); {
		c, n := utf8.DecodeRune(src[i:])
		if msg := strayRune(src[i:], c, n); msg != "" {
			return &yamlFault{line: line, column: column, msg: msg}
		}
		if first && directives {
			switch c {
			case '%':
				return &yamlFault{line: line, column: 1, msg: "found a directive; remove the line, the text is read as YAML without any"}
			case '#', ' ', '\t', '\r', '\n':
			default:
				directives = false
			}
		}
		column++
		first = c == '\n'
		if first {
			line, column = line+1, 1
		}
		i += n
	}
	return nil
}

// strayRune says why no text may contain the character c, or returns "". c has n bytes,
// at the beginning of rest.
func strayRune(rest []byte, c rune, n int) string {
	switch {
	case c == utf8.RuneError && n == 1:
		return fmt.Sprintf("byte 0x%02x does not belong to UTF-8 text; save the text as UTF-8", rest[0])
	case c == '\ufeff':
		return "found a byte order mark; save the text as UTF-8 without one"
	case c == '\r' && (len(rest) == 1 || rest[1] != '\n'):
		return "found a carriage return without a line feed; end lines with a line feed"
	case c == 0x85 || c == 0x2028 || c == 0x2029:
		return fmt.Sprintf(`found U+%04X, which ends a line for some readers; write it as "\u%04x" in double quotes`, c, c)
	case c < ' ' && c != '\t' && c != '\n' && c != '\r' || c >= 0x7f && c < 0xa0:
		return fmt.Sprintf(`found the control character U+%04X; write it as "\u%04x" in double quotes`, c, c)
	}
	return ""
}

// loadYAML parses the only document of a text.
func loadYAML(src []byte) (root *yaml.Node, fault *yamlFault) {
	defer func() {
		if p := recover(); p != nil {
			root, fault = nil, &yamlFault{line: 1, msg: "the text stops the YAML reader"}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &yamlFault{line: 1, column: 1, msg: "the text holds no value"}
	case err != nil:
		return nil, yamlSyntax(err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		line := more.Line
		if err != nil {
			line = yamlSyntax(err).line
		}
		return nil, &yamlFault{line: line, msg: "found more after the end of the document; a text holds one document"}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &yamlFault{line: 1, msg: "the text is no YAML document"}
	}
	return doc.Content[0], nil
}

var libraryLine = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`^line ([0-9]{1,9}): `) }}

// yamlSyntax is the fault for an error of the library. The library knows the line of an
// error only roughly.
func yamlSyntax(err error) *yamlFault {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	f := &yamlFault{line: 1}
	if m := libraryLine.Get().FindStringSubmatch(msg); m != nil {
		f.line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
	}
	f.msg = canon.Cut(msg)
	switch {
	case strings.HasPrefix(msg, "unknown anchor"):
		f.msg = "found an alias; write the value out"
	case strings.HasPrefix(msg, "exceeded max depth"):
		f.msg = depthMsg()
	}
	return f
}

func depthMsg() string {
	return "mappings and lists nest deeper than " + strconv.Itoa(canon.MaxDepth) + " levels"
}

// yamlReader turns nodes into the values that canon.Canonical writes.
type yamlReader struct {
	lines [][]rune // the text's lines; nil if it has no exclamation mark
	path  []string // names and indexes that lead to the current node
}

func (r *yamlReader) fail(n *yaml.Node, format string, args ...any) *yamlFault {
	pointer := ""
	for _, token := range r.path {
		pointer = canon.Pointer(pointer, token)
	}
	return &yamlFault{line: n.Line, column: n.Column, pointer: canon.Cut(pointer), msg: fmt.Sprintf(format, args...)}
}

func (r *yamlReader) value(n *yaml.Node, depth int) (any, *yamlFault) {
	if fault := r.bare(n); fault != nil {
		return nil, fault
	}
	if n.Kind != yaml.ScalarNode && depth > canon.MaxDepth {
		return nil, r.fail(n, "%s", depthMsg())
	}
	switch n.Kind {
	case yaml.ScalarNode:
		v, why := yamlScalar(n)
		if why != "" {
			return nil, r.fail(n, "%s", why)
		}
		return v, nil
	case yaml.SequenceNode:
		return r.list(n, depth)
	case yaml.MappingNode:
		return r.mapping(n, depth)
	}
	return nil, r.fail(n, "found what is no value")
}

// bare refuses everything that can precede a value.
func (r *yamlReader) bare(n *yaml.Node) *yamlFault {
	switch {
	case n.Kind == yaml.AliasNode:
		return r.fail(n, "found the alias *%s; write the value out", canon.Cut(n.Value))
	case n.Anchor != "":
		return r.fail(n, "found the anchor &%s; remove it", canon.Cut(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		return r.fail(n, "found the tag %s; remove it, and quote what shall be a string", canon.Quote(n.Tag))
	case r.marked(n):
		return r.fail(n, `found the tag "!"; remove it, and quote what shall be a string`)
	}
	return nil
}

// marked says whether a node begins with an exclamation mark. The library drops the tag
// "!" silently, and so the fact that the value is a string.
func (r *yamlReader) marked(n *yaml.Node) bool {
	if n.Line < 1 || n.Line > len(r.lines) {
		return false
	}
	line := r.lines[n.Line-1]
	return n.Column >= 1 && n.Column <= len(line) && line[n.Column-1] == '!'
}

func (r *yamlReader) list(n *yaml.Node, depth int) (any, *yamlFault) {
	list := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		r.path = append(r.path, strconv.Itoa(i))
		v, fault := r.value(item, depth+1)
		if fault != nil {
			return nil, fault
		}
		r.path = r.path[:len(r.path)-1]
		list = append(list, v)
	}
	return list, nil
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (any, *yamlFault) {
	members := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, fault := r.name(n.Content[i])
		if fault != nil {
			return nil, fault
		}
		r.path = append(r.path, name)
		if _, twice := members[name]; twice {
			return nil, r.fail(n.Content[i], "member %s stands twice in one mapping; keep one of them", canon.Quote(name))
		}
		if members[name], fault = r.value(n.Content[i+1], depth+1); fault != nil {
			return nil, fault
		}
		r.path = r.path[:len(r.path)-1]
	}
	return members, nil
}

// name reads the name of a member. A fault of a name is reported at its mapping.
func (r *yamlReader) name(n *yaml.Node) (string, *yamlFault) {
	if fault := r.bare(n); fault != nil {
		return "", fault
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", r.fail(n, "found a list or a mapping where the name of a member must stand")
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "", r.fail(n, "found a block of text where the name of a member must stand; write it on one line")
	case n.Style == 0 && n.Value == "<<":
		return "", r.fail(n, `found the merge key "<<"; write the members out`)
	case n.Style == 0 && n.Value == "":
		return "", r.fail(n, "the name of a member is missing")
	}
	v, _ := yamlScalar(n)
	name, ok := v.(string)
	if !ok {
		return "", r.fail(n, "the name of a member is a string; put %s in quotes", canon.Quote(n.Value))
	}
	return name, nil
}

// yamlScalar returns the value of a scalar without tag, or says why it is refused.
func yamlScalar(n *yaml.Node) (v any, why string) {
	if n.Style != 0 {
		return n.Value, ""
	}
	return plainScalar(n.Value)
}

var (
	// jsonNumber is the grammar of a number in RFC 8259.
	jsonNumber = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp { return regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`) }}
	// otherNumber matches the numbers of YAML 1.1 and 1.2 in all their spellings: of
	// base 2, 8, 16 and 60, with underscores, signs and bare points.
	otherNumber = lazy.Value[*regexp.Regexp]{Make: func() *regexp.Regexp {
		return regexp.MustCompile(`^[-+]?(0[xX][0-9A-Fa-f_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|\.(?i:inf|nan))$`)
	}}
)

// plainScalar returns the value of a scalar without quotes, or says why it is refused.
func plainScalar(text string) (v any, why string) {
	switch text {
	case "null":
		return nil, ""
	case "true", "false":
		return text == "true", ""
	case "":
		return nil, `has no value; write one, "" for the empty string, or remove the member`
	case "<<", "=":
		return nil, strconv.Quote(text) + " is no string in every version of YAML; put it in quotes"
	}
	shown := canon.Quote(text)
	switch {
	case strings.IndexByte("+-.0123456789", text[0]) < 0:
	case jsonNumber.Get().MatchString(text):
		return json.Number(text), ""
	case otherNumber.Get().MatchString(text):
		return nil, shown + " is a number in some versions of YAML; write it as JSON does, or put it in quotes"
	}
	switch strings.ToLower(canon.Cut(text)) {
	case "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		return nil, shown + " is no string in some versions of YAML; write true, false or null, or put it in quotes"
	}
	return text, ""
}

// yamlNode returns the node at a pointer, or nil if the pointer leads nowhere, and the node
// where the value begins: that of its name if it has one. If the pointer leads nowhere, it
// is that of the deepest value on the way.
func yamlNode(root *yaml.Node, pointer string) (n, at *yaml.Node) {
	n, at = root, root
	if pointer == "" {
		return n, at
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		var next *yaml.Node
		switch n.Kind {
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Content) {
				next = n.Content[i]
				at = next
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == token {
					next, at = n.Content[i+1], n.Content[i]
					break
				}
			}
		}
		if next == nil {
			return nil, at
		}
		n = next
	}
	return n, at
}
