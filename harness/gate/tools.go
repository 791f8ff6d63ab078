package gate

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// tools is what the gate knows of the tools of the server. The lock of the session guards it.
type tools struct {
	hasTools bool
	known    map[string]canon.ContentHash // by name, what the server has said first
	unfit    map[string]string            // by name, why the tool is not called in this session

	// A listing is due as long as due and done differ. One listing does for all changes that
	// the server has announced before the listing begins.
	due, done int
	listing   bool
	fault     string        // why the last listing failed; empty: it did not
	wake      chan struct{} // closed when a listing ends
}

// announce makes a listing due.
func (s *session) announce() {
	s.due++
	s.start()
}

// begin starts the first listing.
func (s *session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
}

// start starts what is due, as soon as the session has begun. Of a server that has no tools,
// nothing is listed.
func (s *session) start() {
	switch {
	case !s.agreed || !s.ready || s.due == s.done:
	case !s.hasTools:
		s.settle(s.due)
	case !s.listing:
		s.listing = true
		go s.list()
	}
}

// settle ends a listing.
func (s *session) settle(due int) {
	s.done = due
	close(s.wake)
	s.wake = make(chan struct{})
}

// list lists the tools as long as a listing is due.
func (s *session) list() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for due := s.due; due != s.done && s.ctx.Err() == nil; due = s.due {
		s.mu.Unlock()
		err := s.pages()
		s.mu.Lock()
		if s.fault = ""; err != nil {
			s.fault = err.Error()
			if s.ctx.Err() == nil { // the end of the session is no fault of the server
				s.log.Println("fiador mcp gate: the tools of the server cannot be listed: " + s.fault)
			}
		}
		s.settle(due)
		s.mu.Unlock()
		select {
		case <-time.After(listingPause):
		case <-s.ctx.Done():
		}
		s.mu.Lock()
	}
	s.listing = false
}

// pages asks for all pages of tools/list.
func (s *session) pages() error {
	ctx, cancel := context.WithTimeout(s.ctx, listingTime)
	defer cancel()
	seen := map[string]bool{}
	var params rpc.ListParams
	for range maxPages {
		m, err := s.ask(ctx, rpc.MethodToolsList, params)
		if err != nil {
			return err
		}
		s.mu.Lock()
		_, err = s.observe(m.Result, seen)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		switch next := m.Result["nextCursor"].(type) {
		case nil:
			return nil
		case string:
			params.Cursor = &next
		default:
			return errors.New("the member nextCursor is not a string")
		}
	}
	return errors.New("the server has more than " + strconv.Itoa(maxPages) + " pages of tools")
}

// observe reads the tools of one page of tools/list, and returns those that the client may
// see. seen has the names of the earlier pages.
func (s *session) observe(result map[string]any, seen map[string]bool) (shown []any, err error) {
	list, ok := result["tools"].([]any)
	if !ok {
		return nil, errors.New("the member tools is not an array")
	}
	if err := exact(result, "tools", "nextCursor", "_meta"); err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	for i, one := range list {
		t, err := rpc.ReadTool(one)
		if err == nil {
			err = exact(one.(map[string]any), "name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "execution", "_meta")
		}
		first, known := s.known[t.Name]
		switch {
		case err != nil:
			s.log.Println("fiador mcp gate: a tool of the server is not shown: " + err.Error())
			continue
		case seen[t.Name]:
			s.unfit[t.Name] = "TOOL_TWICE: the server lists the tool twice. Fix: call another tool, or mend the server."
		case !known && len(s.known) >= maxTools:
			return nil, errors.New("the server has more than " + strconv.Itoa(maxTools) + " tools")
		case !known:
			s.known[t.Name] = t.SHA256
		case first != t.SHA256:
			s.unfit[t.Name] = "TOOL_CHANGED: the server says another thing about the tool than before in this session. Fix: read what the tool is now, and begin a session anew."
		}
		seen[t.Name], names[i] = true, t.Name
	}
	for i, one := range list {
		if names[i] != "" && s.unpinned(names[i]) == "" && s.unfit[names[i]] == "" {
			shown = append(shown, one)
		}
	}
	return shown, nil
}

// exact refuses an object with a name that differs from a name of the protocol in case alone:
// some clients take the one for the other.
func exact(said map[string]any, names ...string) error {
	for name := range said {
		for _, known := range names {
			if name != known && fold(name) == fold(known) {
				return errors.New("the member " + canon.Quote(name) + " can be taken for " + known)
			}
		}
	}
	return nil
}

// unpinned says why a known tool does not have its pin, or nothing.
func (s *session) unpinned(name string) string {
	if pin, pinned := s.Pins[name]; s.Pins != nil && (!pinned || pin != s.known[name]) {
		return "TOOL_UNPINNED: what the server says about the tool is not what it is pinned to. Fix: read what the tool is now, and pin it with fiador tool pin."
	}
	return ""
}

// shown returns the line of a result of tools/list with the tools that the client may see.
func (s *session) shown(m *message) ([]byte, error) {
	shown, err := s.observe(m.Result, map[string]bool{})
	if err != nil {
		return nil, err
	}
	if len(shown) == len(m.Result["tools"].([]any)) {
		return m.line(), nil
	}
	return m.with(append(make([]any, 0), shown...), "result", "tools")
}

// fit returns the digest of a tool that may be called, or why it may not. It waits for the
// listings that are due.
func (s *session) fit(ctx context.Context, name string) (hash canon.ContentHash, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for due := s.due; s.done < due; {
		wake := s.wake
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return "", "The session has ended."
		}
	}
	hash, known := s.known[name]
	switch {
	case s.fault != "":
		why = "TOOL_UNKNOWN: the tools of the server cannot be listed: " + s.fault + "."
	case !known:
		why = "TOOL_UNKNOWN: the server has not listed the tool. Fix: call a tool of tools/list."
	case s.unfit[name] != "":
		why = s.unfit[name]
	default:
		why = s.unpinned(name)
	}
	if why != "" {
		return "", "REFUSE " + why
	}
	return hash, ""
}
