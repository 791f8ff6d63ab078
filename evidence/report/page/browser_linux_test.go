package page_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// browser is a Chromium that is driven through its pipe: JSON messages that end with NUL.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	last    int
	session string
	asked   []string // addresses that pages asked for
}

// message is one message of either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// chromium starts a Chromium with one page.
func chromium(t *testing.T) *browser {
	t.Helper()
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium is installed: apt-get install chromium")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "fiador-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless", "--remote-debugging-pipe", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--user-data-dir=" + profile, "about:blank"}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	cmd := exec.Command(program, args...)
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	stop := time.AfterFunc(9*time.Minute, func() { cmd.Process.Kill() })
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		to.Write([]byte(`{"id":1000000,"method":"Browser.close"}` + "\x00"))
		stop.Reset(20 * time.Second)
		go io.Copy(io.Discard, from)
		cmd.Wait()
		stop.Stop()
		os.RemoveAll(profile) // a process of the browser may still write there
	})
	var target struct {
		TargetID  string `json:"targetId"`
		SessionID string `json:"sessionId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Network", "Runtime"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call asks the browser, and reads its answer into result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.last++
	id := b.last
	src, err := json.Marshal(message{ID: id, Method: method, Params: params, Session: b.session})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(src, 0)); err != nil {
		b.t.Fatal(method, err)
	}
	m := b.until(func(m message) bool { return m.ID == id })
	if m.Error != nil {
		b.t.Fatalf("%s: %s", method, m.Error)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			b.t.Fatal(method, err)
		}
	}
}

// until reads messages until one is wanted, and notes what the page asks for.
func (b *browser) until(wanted func(message) bool) message {
	b.t.Helper()
	for {
		src, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatal("the browser has ended: ", err)
		}
		var m message
		if err := json.Unmarshal(src[:len(src)-1], &m); err != nil {
			b.t.Fatal(err)
		}
		if m.Method == "Network.requestWillBeSent" {
			request, _ := m.Params.(map[string]any)["request"].(map[string]any)
			b.asked = append(b.asked, fmt.Sprint(request["url"]))
		}
		if wanted(m) {
			return m
		}
	}
}

// open shows a file and waits until it has loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.until(func(m message) bool { return m.Method == "Page.loadEventFired" })
}

// evaluate runs an expression beside the page, whose own scripts may be off, and decodes its value.
func (b *browser) evaluate(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%.300s: %s", expression, got.ExceptionDetails)
	}
	if value != nil {
		if err := json.Unmarshal(got.Result.Value, value); err != nil {
			b.t.Fatalf("%.300s: %v", expression, err)
		}
	}
}

// look sets the width, the colours and the medium.
func (b *browser) look(width int, dark bool, medium string) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shoot saves a part of the page as a picture.
func (b *browser) shoot(name string, width, y, height int) {
	b.t.Helper()
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": y, "width": width, "height": height, "scale": 1}}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(name, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
