// Package rpc owns the messages of JSON-RPC 2.0 as the Model Context Protocol uses them:
// their strict reading, their canonical form, and what a client reads in the results of a
// server.
//
// A message is one JSON object. Read accepts nothing else, so an array of messages (a batch)
// is refused. Members of the envelope that JSON-RPC does not have are ignored, as are unknown
// members of results.
package rpc

import (
	"errors"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxMessageBytes is the limit of one message, in bytes.
const MaxMessageBytes = 4 << 20

// The codes of errors: a message that cannot be accepted, and a method that the receiver does
// not have.
const (
	CodeInvalid  = -32600
	CodeNoMethod = -32601
)

// Kind is the class of a message.
type Kind int

// The kinds of messages.
const (
	Request      Kind = iota + 1 // has an id and a method
	Notification                 // has a method and no id
	Response                     // has an id and a result
	Failure                      // has an error; its id may be absent
)

// ID names a request: a string or an int64. An ID is nil where a message has none. Two ids
// are equal if == says so.
type ID any

// Error is the error of a Failure.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Message is one message. Of Method and Params, Result, and Error, it has those of its kind.
type Message struct {
	Kind   Kind
	ID     ID
	Method string
	Params map[string]any // nil: absent
	Result map[string]any
	Error  Error
}

// Read reads one message of at most MaxMessageBytes bytes. The text is read by canon.Parse.
func Read(text []byte) (*Message, error) {
	doc, err := canon.Parse(text, MaxMessageBytes)
	if err != nil {
		return nil, err
	}
	return Decode(doc.Value())
}

// Decode reads one message from its decoded form, as canon.Parse gives it.
func Decode(v any) (*Message, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the message is not an object; batches are not accepted")
	}
	if m["jsonrpc"] != "2.0" {
		return nil, errors.New(`the message has no member jsonrpc with the value "2.0"`)
	}
	out := &Message{}
	given, hasID := m["id"]
	if hasID && given != nil {
		if out.ID, ok = readID(given); !ok {
			return nil, errors.New("the id is neither a string nor an integer")
		}
	}
	_, isCall := m["method"]
	_, hasResult := m["result"]
	_, hasError := m["error"]
	switch {
	case isCall && !hasResult && !hasError:
		return out, out.readCall(m, hasID)
	case hasResult && !isCall && !hasError:
		out.Kind = Response
		if out.ID == nil {
			return nil, errors.New("a result has no id")
		}
		result, err := object(m, "result")
		out.Result = result
		return out, err
	case hasError && !isCall && !hasResult:
		out.Kind = Failure
		return out, out.readError(m)
	}
	return nil, errors.New("the message has not exactly one of method, result and error")
}

func readID(v any) (ID, bool) {
	if s, ok := v.(string); ok {
		return s, true
	}
	n, ok := canon.Whole(v)
	return n, ok
}

func (m *Message) readCall(from map[string]any, hasID bool) (err error) {
	m.Kind = Notification
	if hasID {
		m.Kind = Request
		if m.ID == nil {
			return errors.New("the id of a request is null")
		}
	}
	if m.Method, err = text(from, "method"); err != nil {
		return err
	}
	if _, there := from["params"]; there {
		m.Params, err = object(from, "params")
	}
	return err
}

func (m *Message) readError(from map[string]any) error {
	e, err := object(from, "error")
	if err != nil {
		return err
	}
	code, ok := canon.Whole(e["code"])
	if !ok {
		return errors.New("the code of the error is not an integer")
	}
	m.Error.Code = int(code)
	m.Error.Message, err = text(e, "message")
	return err
}

// envelope is a message as it is written.
type envelope struct {
	JSONRPC string `json:"jsonrpc"`
	ID      ID     `json:"id,omitempty"`
	Method  string `json:"method,omitempty"`
	Params  any    `json:"params,omitempty"`
	Result  any    `json:"result,omitempty"`
	Error   *Error `json:"error,omitempty"`
}

var envelopePlan canon.Plan[envelope]

// The functions below return the canonical form of a message, without a line feed. The error
// is that of a value which has no canonical form.

// EncodeRequest returns a request. Without params, params is nil.
func EncodeRequest(id ID, method string, params any) ([]byte, error) {
	return envelopePlan.Canonical(&envelope{JSONRPC: "2.0", ID: id, Method: method, Params: params})
}

// EncodeNotification returns a notification. Without params, params is nil.
func EncodeNotification(method string, params any) ([]byte, error) {
	return EncodeRequest(nil, method, params)
}

// EncodeResult returns the answer to a request.
func EncodeResult(id ID, result any) ([]byte, error) {
	return envelopePlan.Canonical(&envelope{JSONRPC: "2.0", ID: id, Result: result})
}

// EncodeError returns the refusal of a request.
func EncodeError(id ID, e Error) ([]byte, error) {
	return envelopePlan.Canonical(&envelope{JSONRPC: "2.0", ID: id, Error: &e})
}

// text returns a member that is a string and not empty.
func text(m map[string]any, name string) (string, error) {
	s, _ := m[name].(string)
	if s == "" {
		return "", errors.New("the member " + name + " is not a string, or it is empty")
	}
	return s, nil
}

// object returns a member that is an object.
func object(m map[string]any, name string) (map[string]any, error) {
	o, ok := m[name].(map[string]any)
	if !ok {
		return nil, errors.New("the member " + name + " is not an object")
	}
	return o, nil
}
