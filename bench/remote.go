package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// remoteSizes are the sizes at which executions on a worker are timed.
type remoteSizes struct {
	rounds int // of whole processes that execute true
	files  int // of the folder
	edits  int // rounds of whole processes that send the folder
}

func fullRemote(rounds int) remoteSizes { return remoteSizes{rounds, 10_000, (rounds + 1) / 2} }
func quickRemote() remoteSizes          { return remoteSizes{2, 140, 2} }

// The ways that are compared, each in its own table.
const (
	remoteTrue = "fiador exec --remote"
	localTrue  = "fiador exec"
	bareTrue   = "a bare action"
	bareShim   = "a bare action that has the shim as an input"

	remoteCold = "fiador work run --remote, nothing stored"
	remoteWarm = "fiador work run --remote, one file changed"
	bareCold   = "a bare action, nothing stored"
	bareWarm   = "a bare action, one file changed"
)

// workerVar names the folder that .ci/remote-worker build has filled.
const workerVar = "FIADOR_REMOTE_WORKER"

const (
	remoteWait   = 60 * time.Second // for what is not the action itself
	remoteAtOnce = 16               // files that are uploaded at once, as fiador does
	remoteTree   = "tree"
	remoteEmpty  = "empty"
	workerTemp   = "/tmp"     // an action gets no variables, and so the shim copies its files to this folder
	remoteShared = "/dev/shm" // the server syncs every file
)

// remoted has the measurements of executions on a worker.
type remoted struct {
	sizes   remoteSizes
	load    string // of the machine before, as Linux counts it
	on      string // file system of the folders
	temp    string // and of workerTemp
	absent  string // why nothing was measured
	worker  string // version of the server's package
	java    string
	shim    int64 // bytes
	trues   []series
	folders []series
	sent    map[string][]sending // by the name of a way, by round
}

// sending is what a helper says that it has uploaded.
type sending struct {
	Blobs int64 `json:"uploaded_files"`
	Bytes int64 `json:"uploaded_bytes"`
}

// remoteScene is a folder beside a server.
type remoteScene struct {
	workScene
	sizes          remoteSizes
	helper, script string // the helper, and a script that also keeps what the helper says
	said           string // in this file
	shim           string
	state          string // folder of the server
	address        string
	edited         int // lines that were added to the first file
}

// remote fills the report's part about executions on a worker. Its thread has a network of its own
// and is not used again, because the server listens on every address.
func (r *report) remote(ctx context.Context, root string, t tools, dir string, z remoteSizes, log io.Writer) error {
	m := &remoted{sizes: z, load: loadAverage(), sent: map[string][]sending{}}
	r.remoted = m
	classes := os.Getenv(workerVar)
	switch {
	case classes == "":
		m.absent = workerVar + " is not set: .ci/remote-worker build DIR makes Bazel's RemoteWorker"
		return nil
	case os.Getuid() != 0:
		m.absent = "only root makes a network namespace"
		return nil
	}
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ended <- m.measure(ctx, root, classes, &remoteScene{workScene: workScene{toolScene: toolScene{scene: scene{dir: filepath.Join(dir, "remote")}, tools: t}}, sizes: z}, log)
	}()
	return <-ended
}

func (m *remoted) measure(ctx context.Context, root, classes string, s *remoteScene, log io.Writer) (err error) {
	if err := ownNetwork(); err != nil {
		return fmt.Errorf("a network for the server: %w", err)
	}
	m.worker = firstLine(ctx, "dpkg-query", "-W", "-f", "${Package} ${Version}", "bazel-bootstrap")
	m.java = firstLine(ctx, "java", "--version")
	if err := s.prepare(ctx, root); err != nil {
		return err
	}
	m.on, m.temp = fileSystem(s.dir), fileSystem(workerTemp)
	info, err := os.Stat(s.shim)
	if err != nil {
		return err
	}
	m.shim = info.Size()
	if s.state, err = os.MkdirTemp(remoteShared, "fiador-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.state)) }()
	server, err := s.serve(ctx, root, classes)
	if err != nil {
		return err
	}
	defer endGroup(server)
	return inParts(ctx, []part[*remoteScene]{{"a command", m.executing}, {"a folder", m.sending}}, s, "remote", log)
}

// firstLine is the first line that a program prints, or empty if the program is not there.
func firstLine(ctx context.Context, argv ...string) string {
	out, _ := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}

// prepare builds what is sent and what sends, and writes the folder and the work item.
func (s *remoteScene) prepare(ctx context.Context, root string) error {
	s.helper, s.shim = filepath.Join(s.dir, "fiador-remote"), filepath.Join(s.dir, "fiador-shim")
	s.script, s.said = filepath.Join(s.dir, "keeping-helper"), filepath.Join(s.dir, "said")
	for file, from := range map[string]string{s.helper: "fiador-remote", s.shim: "fiador-shim"} {
		if err := goTool(ctx, filepath.Join(root, "cmd", from), "", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "."); err != nil {
			return err
		}
	}
	const agents = `{"agents":{"editor":{"argv":["/bin/sh","-c","echo more >>%s"],"stdin":"none","trace":"optional"}}}`
	return errors.Join(
		s.put("edit.json", `{"id":"edit","agent_id":"editor","description":"Edit a file","constraints":{"max_files":1}}`),
		s.put("agents.json", fmt.Sprintf(agents, treeFile(0))),
		s.put("keeping-helper", fmt.Sprintf("#!/bin/sh\n%s | tee -a %s\n", s.helper, s.said)), os.Chmod(s.script, 0o755),
		os.Mkdir(filepath.Join(s.dir, remoteEmpty), 0o755), makeTree(filepath.Join(s.dir, remoteTree), s.sizes.files),
	)
}

// serve starts the server, waits until it listens, and names it in a document.
func (s *remoteScene) serve(ctx context.Context, root, classes string) (*exec.Cmd, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := free.Addr().String()
	_, port, err := net.SplitHostPort(at)
	if err = errors.Join(err, free.Close()); err != nil {
		return nil, err
	}
	s.address = "grpc://" + at
	document, err := json.Marshal(map[string]any{
		"execution": s.address, "shim": map[string]string{runtime.GOARCH: s.shim}, "parallel": remoteAtOnce, "wait_ms": remoteWait.Milliseconds(),
	})
	if err = errors.Join(err, s.put("remote.json", string(document))); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	server := exec.CommandContext(ctx, filepath.Join(root, ".ci", "remote-worker"), "serve", classes, s.state, port)
	server.Stdout, server.Stderr = &said, &said
	grouped(server)
	if err := server.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", at); err == nil {
			return server, conn.Close()
		}
	}
	endGroup(server)
	return nil, fmt.Errorf("RemoteWorker does not listen: %s", said.Bytes())
}

// remotely is what sends a command of fiador to the server, through this helper.
func (s *remoteScene) remotely(helper string) []string {
	return []string{"--remote", "remote.json", "--remote-helper", helper}
}

// remoteWay is a way with what is done before it, outside of the measured time.
type remoteWay struct {
	name   string
	before func() error
	run    func() (sample, error)
}

// inRemoteTurn times ways in turn.
func inRemoteTurn(ways []remoteWay, warmUp, rounds int) ([]series, error) {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return backAndForth(names, warmUp, rounds, func(i int) (sample, error) {
		if before := ways[i].before; before != nil {
			if err := before(); err != nil {
				return sample{}, fmt.Errorf("before %s: %w", ways[i].name, err)
			}
		}
		return ways[i].run()
	})
}

// process is a way that is a whole process.
func (s *remoteScene) process(ctx context.Context, name string, argv ...string) remoteWay {
	return remoteWay{name, nil, func() (sample, error) { return s.once(ctx, s.tools, command{name, argv, 0}) }}
}

// executing times a command that does nothing. What it needs is stored after the first round.
func (m *remoted) executing(ctx context.Context, s *remoteScene) error {
	empty, withShim := filepath.Join(s.dir, "empty.root"), filepath.Join(s.dir, "shim.root")
	if err := errors.Join(listFiles(empty), listFiles(withShim, [2]string{"fiador/shim", s.shim})); err != nil {
		return err
	}
	bare := func(name, list string) remoteWay {
		return remoteWay{name, nil, func() (sample, error) { x, _, err := s.bare(ctx, list); return x, err }}
	}
	run := []string{"--policy", execProfile, "--work", remoteEmpty, "--", trueProgram}
	remote := func(helper string) []string {
		return slices.Concat([]string{s.tools.fiador, "exec"}, s.remotely(helper), run)
	}
	for range 2 { // what the second sends is sent each time
		if err := errors.Join(s.does(ctx, remote(s.script)...), m.heard(remoteTrue, s)); err != nil {
			return err
		}
	}
	m.sent[remoteTrue] = m.sent[remoteTrue][1:]
	var err error
	m.trues, err = inRemoteTurn([]remoteWay{
		s.process(ctx, remoteTrue, remote(s.helper)...), bare(bareTrue, empty), bare(bareShim, withShim),
		s.process(ctx, localTrue, append([]string{s.tools.fiador, "exec"}, run...)...),
	}, min(5, m.sizes.rounds), m.sizes.rounds)
	return err
}

// sending times a work item that edits one file of a folder, and bare actions that have the same
// folder. Before a way with something stored, it runs once more, so that one file has changed since.
func (m *remoted) sending(ctx context.Context, s *remoteScene) (err error) {
	list := filepath.Join(s.dir, "tree.root")
	item := func(name string, flags ...string) remoteWay {
		return s.process(ctx, name, s.run("edit.json", remoteTree, workStore, flags...)...)
	}
	remote := func(name string) remoteWay {
		w := item(name, s.remotely(s.script)...)
		return remoteWay{name, nil, func() (sample, error) {
			x, err := w.run()
			s.edited++
			if err == nil {
				err = m.heard(name, s)
			}
			return x, err
		}}
	}
	bare := func(name string) remoteWay {
		return remoteWay{name, nil, func() (sample, error) {
			x, sent, err := s.bare(ctx, list)
			m.sent[name] = append(m.sent[name], sent)
			return x, err
		}}
	}
	cold, warm, first, again, local := remote(remoteCold), remote(remoteWarm), bare(bareCold), bare(bareWarm), item(itemRun)
	run := local.run
	local.run = func() (sample, error) { s.edited++; return run() }
	cold.before, first.before = s.forget, func() error { return errors.Join(s.forget(), s.listTree(list)) }
	warm.before = func() error {
		_, err := remote("").run()
		return err
	}
	again.before = func() error {
		if err := s.listTree(list); err != nil {
			return err
		}
		if _, _, err := s.bare(ctx, list); err != nil {
			return err
		}
		return errors.Join(s.edit(), s.listTree(list))
	}
	const warmUp = 1
	name := filepath.Join(s.dir, remoteTree, treeFile(0))
	before, err := os.Stat(name)
	if err != nil {
		return err
	}
	m.folders, err = inRemoteTurn([]remoteWay{cold, warm, first, again, local}, warmUp, m.sizes.edits)
	if err != nil {
		return err
	}
	for _, way := range m.folders {
		if list := m.sent[way.name]; list != nil {
			m.sent[way.name] = list[warmUp:]
		}
	}
	after, err := os.Stat(name)
	if want := before.Size() + int64(s.edited*len("more\n")); err == nil && after.Size() != want {
		err = fmt.Errorf("%s has %d bytes instead of %d: a way did not edit it", treeFile(0), after.Size(), want)
	}
	return err
}

// edit adds a line to the first file, as the work item does.
func (s *remoteScene) edit() error {
	f, err := os.OpenFile(filepath.Join(s.dir, remoteTree, treeFile(0)), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	s.edited++
	_, err = f.WriteString("more\n")
	return errors.Join(err, f.Close())
}

// forget removes all files that the server stores. It looks for them each time that it is asked.
func (s *remoteScene) forget() error {
	return filepath.WalkDir(filepath.Join(s.state, "cas"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Remove(name)
	})
}

// heard keeps what the helper has said about the one execution of a way, if that has a name.
func (m *remoted) heard(name string, s *remoteScene) error {
	text, err := os.ReadFile(s.said)
	if err != nil {
		return err
	}
	var list []sending
	for line := range bytes.Lines(text) {
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("the helper says %q: %w", line, err)
		}
		if a.Type == "done" {
			list = append(list, a.Ephemeral)
		}
	}
	if len(list) != 1 {
		return fmt.Errorf("%s had %d executions instead of one", name, len(list))
	}
	if name != "" {
		m.sent[name] = append(m.sent[name], list[0])
	}
	return os.Remove(s.said)
}

// listTree lists the folder for a bare action, where fiador puts it.
func (s *remoteScene) listTree(list string) error {
	var files [][2]string
	for n := range s.sizes.files {
		files = append(files, [2]string{"work/" + treeFile(n), filepath.Join(s.dir, remoteTree, treeFile(n))})
	}
	return listFiles(list, files...)
}

// listFiles writes the list of an input root: paths, each with the file that has its bytes.
func listFiles(list string, files ...[2]string) error {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	for _, f := range files {
		text, err := os.ReadFile(f[1])
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		if err := to.Encode(map[string]any{"path": f[0], "sha256": hex.EncodeToString(sum[:]), "size": len(text), "source": f[1]}); err != nil {
			return err
		}
	}
	return os.WriteFile(list, b.Bytes(), 0o644)
}

// answer is a line of the helper.
type answer struct {
	Type      string  `json:"type"`
	Message   string  `json:"message"`
	ExitCode  int     `json:"exit_code"`
	Files     []any   `json:"files"`
	Ephemeral sending `json:"ephemeral"`
}

// bare has a new process of the helper execute true, which has the files of a list and leaves one
// file, without Fiador. The time is that of the process.
func (s *remoteScene) bare(ctx context.Context, list string) (x sample, sent sending, err error) {
	out, err := os.MkdirTemp(s.dir, "out-")
	if err != nil {
		return x, sent, err
	}
	var lines bytes.Buffer
	to := json.NewEncoder(&lines)
	err = errors.Join(to.Encode(map[string]any{
		"type": "hello", "version": 1, "execution": s.address, "parallel": remoteAtOnce, "wait_ms": remoteWait.Milliseconds(), "run_id": "bench",
	}), to.Encode(map[string]any{
		"type": "execute", "id": "1", "argv": []string{"/bin/sh", "-c", "exec " + trueProgram + " >out"}, "root": list, "outputs": []string{"out"},
		"max_bytes": []int{1}, "timeout_ms": 30_000, "out": out,
	}))
	cmd := exec.CommandContext(ctx, s.helper)
	cmd.Dir, cmd.Env = s.dir, []string{}
	in, errIn := cmd.StdinPipe()
	said, errSaid := cmd.StdoutPipe()
	if err = errors.Join(err, errIn, errSaid); err != nil {
		return x, sent, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return x, sent, err
	}
	_, err = in.Write(lines.Bytes())
	var last answer
	for scan := bufio.NewScanner(said); err == nil && last.Type != "done" && last.Type != "failed" && scan.Scan(); {
		last = answer{}
		err = json.Unmarshal(scan.Bytes(), &last)
	}
	err = errors.Join(err, in.Close(), cmd.Wait())
	x.Wall = time.Since(start)
	if err == nil && (last.Type != "done" || last.ExitCode != 0 || len(last.Files) != 1) {
		err = errors.New("the action ended with " + strconv.Quote(last.Type) + ": " + last.Message)
	}
	return x, last.Ephemeral, errors.Join(err, os.RemoveAll(out))
}
