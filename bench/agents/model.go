package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Call is a tool call that the model asks for.
type Call struct {
	Tool  string
	Space string // the namespace of the tool in OpenAI Responses, where the client gives one
	Input string // a JSON object, or the plain text of a custom tool
	Text  bool   // a custom tool of OpenAI Responses, which takes plain text
	From  string // a pattern; the group of its last match in the request replaces $1 in Input
	id    string
}

// LastWord is the model's answer to each request that gets no tool call.
const LastWord = "Nothing else is to be done."

// Model is a model endpoint on loopback. It speaks the four protocols, and its requests are
// kept. The n-th request that offers tools of the client gets the n-th call.
type Model struct {
	URL   string
	mu    sync.Mutex
	calls []Call
	log   []string
	given int // how many of the calls
}

// NewModel starts an endpoint that ends with the test.
func NewModel(t testing.TB, calls ...Call) *Model {
	m := &Model{calls: calls}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.URL = s.URL
	return m
}

// Log returns the requests: method, path and body of each.
func (m *Model) Log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.log, "\n")
}

// ServeHTTP answers one request of a client.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.log = append(m.log, r.Method+" "+r.URL.Path+" "+string(body))
	m.mu.Unlock()
	var asked struct {
		Stream bool
		Tools  []json.RawMessage
	}
	json.Unmarshal(body, &asked) // what is no JSON offers no tool
	path := r.URL.Path
	var call *Call
	if len(asked.Tools) > 1 || strings.Contains(string(body), `"functionDeclarations"`) || strings.Contains(string(body), `"additional_tools"`) {
		call = m.next(string(body))
	}
	a := answer{w: w, stream: asked.Stream || strings.HasSuffix(path, ":streamGenerateContent")}
	switch {
	case strings.HasSuffix(path, "/messages"):
		a.messages(call)
	case strings.HasSuffix(path, "/responses"):
		a.responses(call)
	case strings.HasSuffix(path, "/chat/completions"):
		a.completions(call)
	case strings.HasSuffix(path, "enerateContent"):
		a.gemini(call)
	case strings.HasSuffix(path, "/count_tokens"), strings.HasSuffix(path, ":countTokens"):
		io.WriteString(w, `{"input_tokens":9,"totalTokens":9}`)
	default:
		http.NotFound(w, r)
	}
}

// next returns the call that a request with tools gets, and nil for the last word.
func (m *Model) next(request string) *Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given == len(m.calls) {
		return nil
	}
	c := m.calls[m.given]
	m.given++
	c.id = fmt.Sprintf("call_%02d", m.given)
	if found := regexp.MustCompile(cmp.Or(c.From, "^$")).FindAllStringSubmatch(request, -1); len(found) > 0 {
		c.Input = strings.ReplaceAll(c.Input, "$1", found[len(found)-1][1])
	}
	return &c
}

// answer writes one answer, as a stream of events or as one document.
type answer struct {
	w      http.ResponseWriter
	stream bool
}

// event writes one event of a stream.
func (a answer) event(name, data string) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	if name != "" {
		fmt.Fprintf(a.w, "event: %s\n", name)
	}
	fmt.Fprintf(a.w, "data: %s\n\n", data)
}

// document writes a whole answer.
func (a answer) document(data string) {
	a.w.Header().Set("Content-Type", "application/json")
	io.WriteString(a.w, data)
}

func (a answer) messages(c *Call) {
	block, start, delta, stop := `{"type":"text","text":`+quote(LastWord)+`}`, `{"type":"text","text":""}`, `{"type":"text_delta","text":`+quote(LastWord)+`}`, "end_turn"
	if c != nil {
		head := `{"type":"tool_use","id":"toolu_` + c.id + `","name":` + quote(c.Tool) + `,"input":`
		block, start, delta, stop = head+c.Input+"}", head+"{}}", `{"type":"input_json_delta","partial_json":`+quote(c.Input)+`}`, "tool_use"
	}
	message := `{"id":"msg_01","type":"message","role":"assistant","model":"local","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}`
	if !a.stream {
		a.document(fmt.Sprintf(message, block, quote(stop)))
		return
	}
	a.event("message_start", `{"type":"message_start","message":`+fmt.Sprintf(message, "", "null")+`}`)
	a.event("content_block_start", `{"type":"content_block_start","index":0,"content_block":`+start+`}`)
	a.event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":`+delta+`}`)
	a.event("content_block_stop", `{"type":"content_block_stop","index":0}`)
	a.event("message_delta", `{"type":"message_delta","delta":{"stop_reason":`+quote(stop)+`,"stop_sequence":null},"usage":{"output_tokens":9}}`)
	a.event("message_stop", `{"type":"message_stop"}`)
}

func (a answer) responses(c *Call) {
	item := `{"type":"message","id":"msg_01","role":"assistant","status":"completed","content":[{"type":"output_text","text":` + quote(LastWord) + `,"annotations":[]}]}`
	if c != nil {
		kind, input := "function_call", "arguments"
		if c.Text {
			kind, input = "custom_tool_call", "input"
		}
		item = fmt.Sprintf(`{"type":%q,"id":"fc_%s","call_id":%q,"status":"completed","name":%s,%q:%s`, kind, c.id, c.id, quote(c.Tool), input, quote(c.Input))
		if c.Space != "" {
			item += `,"namespace":` + quote(c.Space)
		}
		item += "}"
	}
	a.event("response.created", `{"type":"response.created","response":{"id":"resp_01"}}`)
	a.event("response.output_item.added", `{"type":"response.output_item.added","output_index":0,"item":`+item+`}`)
	a.event("response.output_item.done", `{"type":"response.output_item.done","output_index":0,"item":`+item+`}`)
	a.event("response.completed", `{"type":"response.completed","response":{"id":"resp_01","status":"completed","output":[`+item+`],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18}}}`)
}

func (a answer) completions(c *Call) {
	said, stop := `{"role":"assistant","content":`+quote(LastWord)+`}`, "stop"
	if c != nil {
		kind, input := "function", "arguments"
		if c.Text {
			kind, input = "custom", "input"
		}
		said, stop = fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":%q,"type":%q,%q:{"name":%s,%q:%s}}]}`, c.id, kind, kind, quote(c.Tool), input, quote(c.Input)), "tool_calls"
	}
	whole := `{"id":"c_01","object":"chat.completion%s","created":1,"model":"local","choices":[{"index":0,%q:%s,"finish_reason":%s}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`
	if !a.stream {
		a.document(fmt.Sprintf(whole, "", "message", said, quote(stop)))
		return
	}
	a.event("", fmt.Sprintf(whole, ".chunk", "delta", said, "null"))
	a.event("", fmt.Sprintf(whole, ".chunk", "delta", "{}", quote(stop)))
	a.event("", "[DONE]")
}

func (a answer) gemini(c *Call) {
	part := `{"text":` + quote(LastWord) + `}`
	if c != nil {
		part = `{"functionCall":{"name":` + quote(c.Tool) + `,"args":` + c.Input + `}}`
	}
	whole := `{"candidates":[{"index":0,"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9,"totalTokenCount":18}}`
	if a.stream {
		a.event("", whole)
		return
	}
	a.document(whole)
}

// quote returns a text as a JSON string.
func quote(s string) string {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return string(b)
}
