package remote_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// The program of the tests, under the name of the helper, is a helper with a worker of its own:
// it lays out the input root and runs the real shim there. The file "lie" beside it names what it
// then does to the answer, or to the protocol.

// asked is what the helper is asked.
type asked struct {
	Type, ID, Root, Out string
	Headers             map[string]string
}

// pretend is the helper. dir is the folder that it lies in.
func pretend(dir string) int {
	name, _ := os.ReadFile(filepath.Join(dir, "lie"))
	lie := string(name)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a asked
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			say(`{"type":"failed","id":"","kind":"config","message":%q}`, err)
			return 2
		}
		switch {
		case a.Type == "hello" && lie == "another version":
			say(`{"type":"hello","version":2,"server":{}}`)
		case a.Type == "hello" && lie == "silent at hello":
			time.Sleep(time.Hour)
		case a.Type == "hello":
			if a.Headers["token"] != "" {
				_ = os.WriteFile(filepath.Join(dir, "token"), []byte(a.Headers["token"]), 0o600)
			}
			say(`{"type":"hello","version":1,"server":{"low_api":"2.0","high_api":"2.0","digest_functions":["SHA256"],"execution":true,"max_batch_bytes":1}}`)
			if lie == "deaf" {
				time.Sleep(time.Hour)
			}
		case a.Type == "cancel":
			say(`{"type":"failed","id":%q,"kind":"cancelled","message":"cancelled"}`, a.ID)
		case lie == "ends":
			return 3
		case lie == "garbage":
			say("{")
			time.Sleep(time.Hour)
		case lie == "long line":
			say("%s", strings.Repeat("x", 2<<20))
			time.Sleep(time.Hour)
		case lie == "may have run":
			say(`{"type":"accepted","id":%q}`, a.ID)
			say(`{"type":"failed","id":%q,"kind":"lost","message":"the stream broke","may_have_run":true}`, a.ID)
		case lie == "broken", lie == "broken, may have run", lie == "changed":
			kind, after, _ := strings.Cut(lie, ",")
			say(`{"type":"failed","id":%q,"kind":%q,"message":"not so","may_have_run":%t}`, a.ID, kind, after != "")
		case lie == "busy":
			say(`{"type":"failed","id":%q,"kind":"busy","message":"no worker\u001b[2J is free"}`, a.ID)
		case lie == "chatty":
			for range 10_000 {
				say(`{"type":"accepted","id":%q}`, a.ID)
				say(`{"type":"accepted","id":"another"}`)
			}
			say(`{"type":"failed","id":%q,"kind":"lost","message":"after much talk"}`, a.ID)
		case lie == "never answers", lie == "ignores a cancel":
			say(`{"type":"accepted","id":%q}`, a.ID)
			if lie == "ignores a cancel" {
				time.Sleep(time.Hour)
			}
		default:
			if err := work(dir, a, lie); err != nil {
				say(`{"type":"failed","id":%q,"kind":"lost","message":%q}`, a.ID, err.Error())
				break
			}
			say(`{"type":"done","id":%q,"exit_code":0}`, a.ID)
		}
	}
	return 0
}

// work is the worker.
func work(dir string, a asked, lie string) error {
	at, err := os.MkdirTemp(dir, "worker-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	if name := filepath.Base(filepath.Dir(a.Root)); !strings.HasPrefix(name, "fiador-sandbox-") {
		return fmt.Errorf("sandbox.Sweep does not find %s", name)
	}
	list, err := os.ReadFile(a.Root)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(list) {
		var in struct{ Path, Source string }
		if err := json.Unmarshal(line, &in); err != nil {
			return err
		}
		text, err := os.ReadFile(in.Source)
		if err != nil {
			return err
		}
		if lie == "poisoned storage" && in.Path == "work/old" {
			text = append(text, '!')
		}
		to := filepath.Join(at, in.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o744)); err != nil {
			return err
		}
	}
	shim := exec.Command(filepath.Join(at, job.ShimFile))
	shim.Dir = at
	if text, err := shim.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	result, err := os.ReadFile(filepath.Join(at, job.ResultFile))
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(at, job.DataFile))
	if err != nil {
		return err
	}
	spec, err := os.ReadFile(filepath.Join(at, job.SpecFile))
	if err := errors.Join(err, fits(specs.KindRemoteSpec, spec), fits(specs.KindRemoteResult, result)); err != nil {
		return err
	}
	if result, data, err = told(lie, result, data); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(a.Out, "result.json"), result, 0o600),
		os.WriteFile(filepath.Join(a.Out, "data.tar"), data, 0o600))
}

// fits holds a document of this task against its schema.
func fits(kind specs.Kind, text []byte) error {
	set, err := specs.New()
	if err != nil {
		return err
	}
	doc, err := canon.Parse(text, len(text))
	if err != nil {
		return err
	}
	wrong, err := set.Validate(kind, doc.Value())
	if len(wrong) > 0 {
		err = fmt.Errorf("%s: %v", kind, wrong[0])
	}
	return err
}

// told returns the answer with a lie in it.
func told(lie string, result, data []byte) ([]byte, []byte, error) {
	if change, ok := textLies()[lie]; ok {
		return change(result), data, nil
	}
	if change, ok := dataLies()[lie]; ok {
		return result, change(data), nil
	}
	change, ok := resultLies()[lie]
	if lie == "refused" {
		data = nil // and no tar file
		change, ok = func(r *job.Result) {
			*r = job.Result{Version: r.Version, Spec: r.Spec, Refused: &job.Refusal{Kind: job.RefusedIsolation, Message: "no space", Isolation: "full", Step: "start", Errno: 28, Remedy: "more namespaces"}}
		}, true
	}
	if !ok {
		return result, data, nil
	}
	r, err := job.ReadResult(result, len(result))
	if err != nil {
		return nil, nil, err
	}
	change(r)
	result, _, err = r.Artifact()
	return result, data, err
}

// textLies change the bytes of result.json.
func textLies() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"no result":     func([]byte) []byte { return nil },
		"half a result": func(b []byte) []byte { return b[:len(b)/2] },
		"not canonical": func(b []byte) []byte { return append([]byte(" "), b...) },
		"another member": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`{"changes"`), []byte(`{"chang":1,"changes"`), 1)
		},
		"two results": func(b []byte) []byte { return append(b, b...) },
		"version": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"version":"1.0.0"`), []byte(`"version":"2.0.0"`), 1)
		},
		"a hundred million": func(b []byte) []byte { return append(bytes.Repeat([]byte("["), 1<<20), b...) },
	}
}

// resultLies change what result.json says. Each is a thing that no shim says of the task.
func resultLies() map[string]func(*job.Result) {
	first := func(r *job.Result) *job.Change { return &r.Changes[0] }
	return map[string]func(*job.Result){
		"another task":      func(r *job.Result) { r.Spec = r.Plan },
		"weaker isolation":  func(r *job.Result) { r.Isolation = "none" },
		"unknown isolation": func(r *job.Result) { r.Isolation = "perfect" },
		"clause missing":    func(r *job.Result) { r.Clauses = r.Clauses[1:] },
		"clause unknown":    func(r *job.Result) { r.Clauses[0].Clause = "hope" },
		"clause it cannot":  func(r *job.Result) { r.Clauses[0].Mechanism = "a promise" },
		"clause of a network": func(r *job.Result) {
			r.Clauses[7].Mechanism, r.Clauses[7].Status = "allowed by the profile", "enforced"
		},
		"no plan":            func(r *job.Result) { r.Plan = "" },
		"other system":       func(r *job.Result) { r.Machine.OS = "plan9" },
		"more actions":       func(r *job.Result) { r.Steps = append(r.Steps, r.Steps...) },
		"fewer actions":      func(r *job.Result) { r.Steps = r.Steps[:1] },
		"other kind of step": func(r *job.Result) { r.Steps[0].End, r.Steps[0].Errno = nil, 0 },
		"code 256":           func(r *job.Result) { r.Steps[0].End.Code = 256 },
		"code and signal":    func(r *job.Result) { r.Steps[0].End.Code, r.Steps[0].End.Signal = 1, 9 },
		"goes on after a failure": func(r *job.Result) {
			r.Steps[0].End.Code = 1
		},
		"stream too short": func(r *job.Result) { r.Steps[0].End.Stdout.Size += 1 },
		"stream too long":  func(r *job.Result) { r.Steps[0].End.Stdout.Kept, r.Steps[0].End.Stdout.Size = 1<<30, 1<<30 },
		"other stream":     func(r *job.Result) { r.Steps[0].End.Stdout.SHA256 = r.Plan },
		"path up":          func(r *job.Result) { first(r).Path = "Li4vZXZpbA==" }, // ../evil
		"absolute path":    func(r *job.Result) { first(r).Path = "L2V0Yy9ldmls" }, // /etc/evil
		"beneath a link": func(r *job.Result) {
			r.Changes = append(r.Changes, job.Change{Path: text64("sub"), Kind: "link", Target: text64("/tmp")}, job.Change{Path: text64("sub/two"), Kind: "deleted"})
		},
		"beneath a file": func(r *job.Result) {
			r.Changes = append(r.Changes, job.Change{Path: text64("sub/two/x"), Kind: "folder"})
		},
		"beneath nothing": func(r *job.Result) {
			r.Changes = append(r.Changes, job.Change{Path: text64("x/y"), Kind: "folder"})
		},
		"not sorted": func(r *job.Result) {
			r.Changes = append(r.Changes, job.Change{Path: text64("a"), Kind: "folder"})
		},
		"clause of another isolation": func(r *job.Result) {
			for i := range r.Clauses {
				if r.Clauses[i].Clause == evidence.ClauseProcesses {
					r.Clauses[i] = evidence.ProcessesUser.With(64)
				}
			}
		},
		"other architecture": func(r *job.Result) { r.Machine.Arch = "mips" },
		"screen codes":       func(r *job.Result) { r.Machine.KernelRelease = "6\x1b[2J" },
		"long text":          func(r *job.Result) { r.Machine.GoVersion = strings.Repeat("x", 65) },
		"no such Landlock":   func(r *job.Result) { r.Machine.LandlockABI = 1001 },
		"unknown refusal":    func(r *job.Result) { r.Refused = &job.Refusal{Kind: job.RefusedIsolation, Isolation: "perfect"} },
		"huge errno": func(r *job.Result) {
			r.Refused = &job.Refusal{Kind: job.RefusedIsolation, Isolation: "full", Errno: 4096}
		},
		"refused too late": func(r *job.Result) {
			r.Refused = &job.Refusal{Kind: job.RefusedWorker, Message: "no space", Started: true}
		},
		"path twice":        func(r *job.Result) { r.Changes = append(r.Changes[:1], r.Changes...) },
		"path no base64":    func(r *job.Result) { first(r).Path = "?" },
		"no path":           func(r *job.Result) { first(r).Path = "" },
		"the folder itself": func(r *job.Result) { first(r).Path = "Lg==" },
		"unknown kind":      func(r *job.Result) { first(r).Kind = "portal" },
		"other size":        func(r *job.Result) { first(r).Size++ },
		"negative size":     func(r *job.Result) { first(r).Size = -1 },
		"huge size":         func(r *job.Result) { first(r).Size = 1 << 50 },
		"other file hash":   func(r *job.Result) { first(r).SHA256 = r.Plan },
		"no hash":           func(r *job.Result) { first(r).SHA256 = "md5:0" },
		"one change less":   func(r *job.Result) { r.Changes = r.Changes[1:] },
		"connections":       func(r *job.Result) { r.Contacts = make([]evidence.Connection, 1) },
		"a million changes": func(r *job.Result) {
			for range 300_000 {
				r.Changes = append(r.Changes, job.Change{Path: "eA==", Kind: "deleted"})
			}
		},
	}
}

func text64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// dataLies change data.tar.
func dataLies() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"no data":             func([]byte) []byte { return nil },
		"half the data":       func(b []byte) []byte { return b[:len(b)/2] },
		"more data":           rewritten(func(w *tar.Writer) { add(w, tar.Header{Name: "files/99", Size: 1, Typeflag: tar.TypeReg}, "x") }, nil),
		"link in data":        rewritten(nil, func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, "/etc/passwd", 0 }),
		"hard link":           rewritten(nil, func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeLink, "/etc/passwd", 0 }),
		"device":              rewritten(nil, func(h *tar.Header) { h.Typeflag, h.Size = tar.TypeChar, 0 }),
		"name up":             rewritten(nil, func(h *tar.Header) { h.Name = "../../" + h.Name }),
		"absolute name":       rewritten(nil, func(h *tar.Header) { h.Name = "/tmp/" + h.Name }),
		"zeros after the end": func(b []byte) []byte { return append(b, make([]byte, 512)...) },
		"more after the end":  func(b []byte) []byte { return append(b, "text"...) },
		"no end":              func(b []byte) []byte { return b[:len(b)-1024] },
		"another format": rewritten(nil, func(h *tar.Header) {
			h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"FIADOR.x": "1"}
		}),
		"other bytes": func(b []byte) []byte { return bytes.Replace(b, []byte("new text"), []byte("gnu text"), 1) },
		"not a tar":   func([]byte) []byte { return bytes.Repeat([]byte("fiador "), 4096) },
		"sparse": rewritten(nil, func(h *tar.Header) {
			h.PAXRecords = map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": h.Name, "GNU.sparse.realsize": "99999999999"}
		}),
		"another order": reversed,
	}
}

func add(w *tar.Writer, h tar.Header, text string) {
	_ = w.WriteHeader(&h)
	_, _ = io.WriteString(w, text)
}

// entries reads the entries of a tar file.
func entries(b []byte) (heads []tar.Header, texts []string) {
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err != nil {
			return heads, texts
		}
		text, _ := io.ReadAll(r)
		heads, texts = append(heads, *h), append(texts, string(text))
	}
}

// rewritten writes a tar file again, with its last entry changed, or with more at the end.
func rewritten(more func(*tar.Writer), last func(*tar.Header)) func([]byte) []byte {
	return func(b []byte) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		heads, texts := entries(b)
		for i, h := range heads {
			if i == len(heads)-1 && last != nil {
				if last(&h); h.Size == 0 {
					texts[i] = ""
				}
			}
			add(w, h, texts[i])
		}
		if more != nil {
			more(w)
		}
		_ = w.Close()
		return out.Bytes()
	}
}

func reversed(b []byte) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	heads, texts := entries(b)
	for i := range heads {
		add(w, heads[len(heads)-1-i], texts[len(heads)-1-i])
	}
	_ = w.Close()
	return out.Bytes()
}
