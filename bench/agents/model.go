package agents

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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

// offers finds a request that offers tools of the client, in each of the protocols.
var offers = regexp.MustCompile(`"(input_schema|parameters|functionDeclarations)":|"additional_tools"`)

// ServeHTTP answers one request of a client.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text, path := string(body), r.URL.Path
	tools := offers.MatchString(text)
	c := m.next(r.Method+" "+path+" "+text, tools)
	if c == nil && tools && strings.HasSuffix(path, "/responses") {
		m.answered()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case strings.HasSuffix(path, "/messages"):
		messages(w, c)
	case strings.HasSuffix(path, "/responses"):
		responses(w, c)
	case strings.HasSuffix(path, "/chat/completions"):
		completions(w, c)
	case strings.HasSuffix(path, ":streamGenerateContent"):
		fmt.Fprintf(w, "data: %s\n\n", gemini(c))
	case strings.HasSuffix(path, ":generateContent"):
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, gemini(c))
	default:
		http.NotFound(w, r)
	}
}

// next keeps a request. It returns the next call for a request with tools, and nil for the
// last word.
func (m *Model) next(request string, tools bool) *Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, request)
	if !tools || m.given == len(m.calls) {
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

// answered waits until the client has answered the last call, for ten seconds at most. A client
// with two conversations ends after the last word of the first, and the call of the second is
// lost.
func (m *Model) answered() {
	for range 100 {
		m.mu.Lock()
		id := fmt.Sprintf("call_%02d", m.given)
		done := m.given == 0 || slices.ContainsFunc(m.log, func(request string) bool { return strings.Contains(request, id) })
		m.mu.Unlock()
		if done {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// event writes one event of a stream.
func event(w http.ResponseWriter, name, data string) {
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
}

// messages, responses, completions and gemini answer in one of the protocols each.
func messages(w http.ResponseWriter, c *Call) {
	start, delta, stop := `{"type":"text","text":""}`, `{"type":"text_delta","text":`+quote(LastWord)+`}`, "end_turn"
	if c != nil {
		start = `{"type":"tool_use","id":"toolu_` + c.id + `","name":` + quote(c.Tool) + `,"input":{}}`
		delta, stop = `{"type":"input_json_delta","partial_json":`+quote(c.Input)+`}`, "tool_use"
	}
	event(w, "message_start", `{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"local","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":9}}}`)
	event(w, "content_block_start", `{"type":"content_block_start","index":0,"content_block":`+start+`}`)
	event(w, "content_block_delta", `{"type":"content_block_delta","index":0,"delta":`+delta+`}`)
	event(w, "content_block_stop", `{"type":"content_block_stop","index":0}`)
	event(w, "message_delta", `{"type":"message_delta","delta":{"stop_reason":`+quote(stop)+`,"stop_sequence":null},"usage":{"output_tokens":9}}`)
	event(w, "message_stop", `{"type":"message_stop"}`)
}

func responses(w http.ResponseWriter, c *Call) {
	item := `{"type":"message","id":"msg_01","role":"assistant","status":"completed","content":[{"type":"output_text","text":` + quote(LastWord) + `,"annotations":[]}]}`
	if c != nil {
		kind, input := "function_call", "arguments"
		if c.Text {
			kind, input = "custom_tool_call", "input"
		}
		item = fmt.Sprintf(`{"type":%q,"id":"fc_%s","call_id":%q,"status":"completed","namespace":%s,"name":%s,%q:%s}`, kind, c.id, c.id, quote(c.Space), quote(c.Tool), input, quote(c.Input))
		item = strings.Replace(item, `"namespace":"",`, "", 1)
	}
	event(w, "response.created", `{"type":"response.created","response":{"id":"resp_01"}}`)
	event(w, "response.output_item.done", `{"type":"response.output_item.done","output_index":0,"item":`+item+`}`)
	event(w, "response.completed", `{"type":"response.completed","response":{"id":"resp_01","status":"completed","output":[`+item+`],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18}}}`)
}

func completions(w http.ResponseWriter, c *Call) {
	said, stop := `{"role":"assistant","content":`+quote(LastWord)+`}`, "stop"
	if c != nil {
		kind, input := "function", "arguments"
		if c.Text {
			kind, input = "custom", "input"
		}
		said, stop = fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":%q,"type":%q,%q:{"name":%s,%q:%s}}]}`, c.id, kind, kind, quote(c.Tool), input, quote(c.Input)), "tool_calls"
	}
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", `{"id":"c_01","object":"chat.completion.chunk","created":1,"model":"local","choices":[{"index":0,"delta":`+said+`,"finish_reason":`+quote(stop)+`}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}`)
}

func gemini(c *Call) string {
	part := `{"text":` + quote(LastWord) + `}`
	if c != nil {
		part = `{"functionCall":{"name":` + quote(c.Tool) + `,"args":` + c.Input + `}}`
	}
	return `{"candidates":[{"index":0,"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9,"totalTokenCount":18}}`
}
