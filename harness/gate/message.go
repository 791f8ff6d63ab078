package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// message is one message, and the line that hands it on.
type message struct {
	*rpc.Message
	value map[string]any
	text  []byte // as its sender wrote it
	canon []byte
}

// read reads a message of either side strictly. The envelope has the members of JSON-RPC
// alone, so that a reader which does not tell a case from another finds no second method.
func read(text []byte) (*message, error) {
	doc, err := canon.Parse(text, rpc.MaxMessageBytes)
	if err != nil {
		return nil, err
	}
	m, err := rpc.Decode(doc.Value())
	if err != nil {
		return nil, err
	}
	value := doc.Value().(map[string]any)
	for name := range value {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"}, name) {
			return nil, errors.New("the message has the member " + canon.Quote(name) + ", which is none of JSON-RPC")
		}
	}
	_, params := value["params"]
	if params && m.Method == "" {
		return nil, errors.New("an answer has params")
	}
	if m.Method != "" && m.Kind == rpc.Notification != strings.HasPrefix(m.Method, "notifications/") {
		return nil, errors.New("notifications alone have no id, and their methods begin with notifications/")
	}
	return &message{m, value, text, doc.Bytes()}, nil
}

// readClient reads a message of the client. Beside what read refuses, it refuses an object with
// two names that are equal when case is folded: which of them counts differs among servers.
func readClient(text []byte) (*message, error) {
	m, err := read(text)
	if err == nil {
		err = twins(m.value)
	}
	if allowed, is := decided.Get()[m.method()]; err == nil && is {
		for name := range m.Params {
			if !slices.Contains(allowed, name) {
				return nil, errors.New("the params have the member " + canon.Quote(name) + ", which " + m.Method + " does not have")
			}
		}
	}
	return m, err
}

// method returns the method of a request.
func (m *message) method() string {
	if m == nil || m.Kind != rpc.Request {
		return ""
	}
	return m.Method
}

// twins refuses a value in which an object has two names that are equal when case is folded.
func twins(v any) error {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if err := twins(one); err != nil {
				return err
			}
		}
	case map[string]any:
		var seen map[string]bool
		if len(v) > 1 {
			seen = make(map[string]bool, len(v))
		}
		for name, one := range v {
			if seen != nil {
				folded := fold(name)
				if seen[folded] {
					return errors.New("an object has two names that differ in case alone, as " + canon.Quote(name))
				}
				seen[folded] = true
			}
			if err := twins(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// fold returns the same text for names that strings.EqualFold calls equal.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

// line returns a message as its own bytes, and a line feed. No other character of the line ends
// a line for any reader: a second message could hide behind it. White space that does is left
// out, by the canonical form. In strings such a character is escaped.
func (m *message) line() []byte {
	text := bytes.Trim(m.text, " \t\r\n")
	if bytes.ContainsAny(text, "\r\n") {
		text = m.canon
	}
	return line(text)
}

// line ends a text with a line feed.
func line(text []byte) []byte {
	out := append(make([]byte, 0, len(text)+1), text...)
	for _, end := range []struct{ raw, escaped string }{{"\u0085", `\u0085`}, {"\u2028", `\u2028`}, {"\u2029", `\u2029`}} {
		if bytes.Contains(out, []byte(end.raw)) {
			out = bytes.ReplaceAll(out, []byte(end.raw), []byte(end.escaped))
		}
	}
	return append(out, '\n')
}

// with returns the canonical line of a message in which the value at a path, which exists, is
// another one. The message stays as it is.
func (m *message) with(other any, path ...string) ([]byte, error) {
	top := maps.Clone(m.value)
	at := top
	for _, name := range path[:len(path)-1] {
		inner, _ := at[name].(map[string]any)
		inner = maps.Clone(inner)
		at[name], at = inner, inner
	}
	at[path[len(path)-1]] = other
	text, err := canon.Canonical(top)
	if err != nil {
		return nil, err
	}
	return line(text), nil
}

// quiet returns the line of initialize without the capabilities that the gate refuses to use.
func (m *message) quiet() ([]byte, error) {
	had, ok := m.Params["capabilities"].(map[string]any)
	if !ok {
		return m.line(), nil
	}
	has := maps.Clone(had)
	for _, name := range []string{"sampling", "elicitation", "tasks"} {
		delete(has, name)
	}
	if len(has) == len(had) {
		return m.line(), nil
	}
	return m.with(has, "params", "capabilities")
}

// idOf returns the id of a request (call) or of an answer in a text that is not strict. It is
// nil where the text does not say one. Nobody uses it but to say that the text is refused.
func idOf(text []byte, call bool) rpc.ID {
	var said struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	if json.Unmarshal(text, &said) != nil || call != (said.Method != nil) {
		return nil
	}
	doc, err := canon.Parse(said.ID, 1024)
	if err != nil {
		return nil
	}
	if text, ok := doc.Value().(string); ok {
		return text
	}
	if n, ok := canon.Whole(doc.Value()); ok {
		return n
	}
	return nil
}

// failure returns an error as an answer.
func failure(id rpc.ID, code int, why string) []byte {
	text, _ := rpc.EncodeError(id, rpc.Error{Code: code, Message: canon.Clean(why)}) // every part has a canonical form
	return line(text)
}

// block is a text in the content of a result.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// failed is the result of a tool that is not called.
type failed struct {
	Content []block `json:"content"`
	IsError bool    `json:"isError"`
}

// refusal returns the answer to a call that is refused.
func refusal(id rpc.ID, method, why string) []byte {
	if method != rpc.MethodToolsCall {
		return failure(id, codeRefused, why)
	}
	text, _ := rpc.EncodeResult(id, failed{[]block{{"text", canon.Clean(why)}}, true}) // as in failure
	return line(text)
}
