package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/ledger/disk"
)

// ledgerSizes are the sizes at which the ledger is timed.
type ledgerSizes struct {
	appended []int // entries of the ledgers that are appended to
	read     []int // entries of those that are read; each is also appended to
	rounds   int   // of appends
	crowds   []int // processes at once
	waves    int   // rounds of those
	short    int   // rounds of commands that read little
	long     int   // rounds of those that read everything
	intents  int   // in a folder that is checked
}

func fullLedger(rounds int) ledgerSizes {
	return ledgerSizes{[]int{1e3, 1e5, 1e6}, []int{1e5, 1e6}, 5 * rounds, []int{1, 8, 64}, 21, rounds, 3, 1000}
}

func quickLedger() ledgerSizes {
	return ledgerSizes{[]int{100, 1000, 3000}, []int{1000, 3000}, 3, []int{1, 4}, 2, 2, 1, 40}
}

// The commands that are compared.
const (
	bareWay    = "a line of JSON, with fsync"
	tesseraWay = "Tessera, POSIX driver"
	withoutWay = "fiador run"
	withWay    = "fiador run, recorded"
	checkWay   = "fiador check"
	recordWay  = "fiador check, recorded"
)

func appendWay(size int) string { return fmt.Sprintf("append to %d entries", size) }

// recorded has the measurements of the ledger.
type recorded struct {
	sizes   ledgerSizes
	tessera string // version
	on      string // file system
	books   []*book
	appends []series
	syncs   []syncCount // of one append to each of the books; nil: strace is not there
	crowds  []crowdRuns
	lost    int
	doubled int
	reads   [][]series // by size
	runs    []series
	checks  []series
}

// ledgerTools are the programs of this part.
type ledgerTools struct {
	append, bare, crowd, tessera string
}

func buildLedger(ctx context.Context, root, dir string) (t ledgerTools, version string, err error) {
	t = ledgerTools{filepath.Join(dir, "append"), filepath.Join(dir, "bare"), filepath.Join(dir, "crowd"), filepath.Join(dir, "tessera")}
	own := filepath.Join(root, "bench")
	for _, b := range []struct{ at, path, pkg string }{
		{own, t.append, "./testdata/append"},
		{own, t.bare, "./testdata/bare"},
		{own, t.crowd, "./testdata/crowd"},
		{filepath.Join(own, "tessera"), t.tessera, "."},
	} {
		if err := goTool(ctx, b.at, "", "build", "-trimpath", "-o", b.path, b.pkg); err != nil {
			return t, "", err
		}
	}
	info, err := buildinfo.ReadFile(t.tessera)
	if err != nil {
		return t, "", err
	}
	for _, dep := range info.Deps {
		if dep.Path == "github.com/transparency-dev/tessera" {
			version = dep.Version
		}
	}
	return t, version, nil
}

// ledgered fills the report's part about the ledger.
func (r *report) ledgered(ctx context.Context, root string, t tools, dir string, z ledgerSizes, log io.Writer) error {
	dir = filepath.Join(dir, "ledgers")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	own, version, err := buildLedger(ctx, root, dir)
	if err != nil {
		return err
	}
	s, err := newScene(dir)
	if err != nil {
		return err
	}
	m := &recorded{sizes: z, tessera: version, on: fileSystem(dir)}
	r.recorded = m
	for _, size := range z.appended {
		fmt.Fprintf(log, "writing a ledger of %d entries\n", size)
		b, err := newBook(ctx, filepath.Join(dir, "ledger-"+strconv.Itoa(size)), size)
		if err != nil {
			return err
		}
		m.books = append(m.books, b)
	}
	// What the disk still has to do is not to be timed.
	if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	for _, part := range []struct {
		what string
		do   func(context.Context, tools, ledgerTools, *scene) error
	}{
		{"commands that read", m.reading}, {"appends", m.appending}, {"appends at once", m.crowding}, {"recorded runs", m.running},
	} {
		fmt.Fprintf(log, "timing %s\n", part.what)
		if err := part.do(ctx, t, own, s); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}

// book is the ledger that had so many entries.
func (m *recorded) book(size int) *book {
	return m.books[slices.Index(m.sizes.appended, size)]
}

// reading times commands of fiador that read a ledger.
func (m *recorded) reading(ctx context.Context, t tools, _ ledgerTools, s *scene) error {
	for _, size := range m.sizes.read {
		b := m.book(size)
		of := func(name string, args ...string) command {
			return command{name, slices.Concat([]string{t.fiador, "ledger"}, args, []string{"--ledger", b.dir}), 0}
		}
		short, err := s.inTurn(ctx, t, []command{
			of("prove RUN", "prove", b.run), of("list --last 20", "list", "--last", "20"),
			{versionWay, []string{t.fiador, "version"}, 0}, {nothingWay, []string{t.empty}, 0},
		}, 1, m.sizes.short)
		if err != nil {
			return err
		}
		long, err := s.inTurn(ctx, t, []command{
			of("verify --quick", "verify", "--quick"), of("verify", "verify"), of("verify --tiles", "verify", "--tiles"),
			of("list --format jsonl", "list", "--format", "jsonl"), of("stats", "stats"), of("drift", "drift"),
		}, 0, m.sizes.long)
		if err != nil {
			return err
		}
		all := append(short, long...)
		// The signature of every seal takes long where there are many.
		if expected := m.sealsOf(size); expected < time.Minute {
			seals, err := s.inTurn(ctx, t, []command{of(sealsCommand, "verify", "--all-seals")}, 0, 1)
			if err != nil {
				return err
			}
			all = append(all, seals...)
		}
		m.reads = append(m.reads, all)
	}
	return nil
}

const sealsCommand = "verify --all-seals"

// sealsOf estimates the time to check all seals of a ledger, from the time that the ledger
// before it took. It returns 0 if there was no ledger before.
func (m *recorded) sealsOf(size int) time.Duration {
	if len(m.reads) == 0 {
		return 0
	}
	last := len(m.reads) - 1
	s := named(m.reads[last], sealsCommand)
	if s == nil {
		return time.Hour
	}
	return median(s.walls()) * time.Duration(size) / time.Duration(m.sizes.read[last])
}

// appending times one append by one process, beside others.
func (m *recorded) appending(ctx context.Context, t tools, own ledgerTools, s *scene) error {
	line := strconv.FormatInt(m.lineBytes(), 10)
	log, key := filepath.Join(s.dir, "tessera-log"), filepath.Join(s.dir, "tessera-log.key")
	if _, err := s.output(ctx, command{tesseraWay, []string{own.tessera, log, key, "1000", line}, 0}); err != nil {
		return err
	}
	commands := []command{
		{nothingWay, []string{t.empty}, 0},
		{bareWay, []string{own.bare, filepath.Join(s.dir, "bare.jsonl"), line}, 0},
	}
	for i, b := range m.books {
		commands = append(commands, command{appendWay(m.sizes.appended[i]), []string{own.append, b.dir, b.key}, 0})
	}
	// Last, so that a pause before it is one before nothing else.
	commands = append(commands, command{tesseraWay, []string{own.tessera, log, key, "1", line}, 0})
	const warmUp = 3
	for round := range warmUp + m.sizes.rounds {
		var list []series
		for _, c := range commands {
			if c.name == tesseraWay {
				time.Sleep(tesseraPause)
			}
			x, err := s.once(ctx, t, c)
			if err != nil {
				return err
			}
			list = append(list, series{c.name, []sample{x}})
		}
		switch {
		case round < warmUp:
		case m.appends == nil:
			m.appends = list
		default:
			for i := range list {
				m.appends[i].samples = append(m.appends[i].samples, list[i].samples...)
			}
		}
	}
	for _, b := range m.books {
		b.size += warmUp + int64(m.sizes.rounds)
		if size, err := sizeOf(b.dir); err != nil || size != b.size {
			return errors.Join(err, fmt.Errorf("the ledger has %d entries instead of %d", size, b.size))
		}
	}
	return m.countSyncs(ctx, own, s)
}

// tesseraPause is longer than the least time between two checkpoints of Tessera's
// driver, for which an append would wait.
const tesseraPause = 120 * time.Millisecond

// lineBytes is the size of a line, about.
func (m *recorded) lineBytes() int64 { return m.books[0].entryBytes/m.books[0].size + 180 }

func sizeOf(dir string) (int64, error) {
	r, err := disk.Read(dir)
	if err != nil {
		return 0, err
	}
	return r.Checkpoint().Size, r.Close()
}

// syncCount is which calls of a process wait for the disk.
type syncCount struct {
	truth int // fdatasync of ledger.jsonl
	other int
}

// countSyncs counts those of an append to each book.
func (m *recorded) countSyncs(ctx context.Context, own ledgerTools, s *scene) error {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil
	}
	for _, b := range m.books {
		file := filepath.Join(s.dir, "strace")
		cmd := exec.CommandContext(ctx, "strace", "-f", "-y", "-e", "trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync", "-o", file, own.append, b.dir, b.key)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("strace: %w: %s", err, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		b.size++
		m.syncs = append(m.syncs, readSyncs(string(text)))
	}
	return nil
}

// readSyncs reads what strace has written.
func readSyncs(text string) (n syncCount) {
	for line := range strings.Lines(text) {
		_, call, _ := strings.Cut(strings.TrimSpace(line), " ") // behind the number of the process
		name, args, ok := strings.Cut(strings.TrimSpace(call), "(")
		switch {
		case !ok || strings.HasPrefix(name, "<..."):
		case name == "fdatasync" && strings.Contains(args, "/ledger.jsonl>"):
			n.truth++
		case strings.Contains(name, "sync"):
			n.other++
		}
	}
	return n
}

// crowdRuns are the rounds of so many processes at once.
type crowdRuns struct {
	processes      int
	empty, appends series
}

// crowding times processes at once, and finds each of their records.
func (m *recorded) crowding(ctx context.Context, t tools, own ledgerTools, s *scene) error {
	b := m.book(m.sizes.read[0])
	receipts := map[int64][]string{}
	for _, n := range m.sizes.crowds {
		runs := crowdRuns{processes: n}
		for round := range 1 + m.sizes.waves { // the first warms up
			x, _, err := s.crowd(ctx, own, n, t.empty)
			if err != nil {
				return err
			}
			y, outputs, err := s.crowd(ctx, own, n, own.append, b.dir, b.key)
			if err != nil {
				return err
			}
			for _, out := range outputs {
				var index int64
				var run string
				if _, err := fmt.Sscan(out, &index, &run); err != nil {
					return fmt.Errorf("a receipt: %q: %w", out, err)
				}
				receipts[index] = append(receipts[index], run)
			}
			if round > 0 {
				runs.empty.samples, runs.appends.samples = append(runs.empty.samples, x), append(runs.appends.samples, y)
			}
		}
		m.crowds = append(m.crowds, runs)
	}
	var err error
	m.lost, m.doubled, err = b.reconcile(ctx, receipts)
	return err
}

// crowd runs so many processes of a command at once.
func (s *scene) crowd(ctx context.Context, own ledgerTools, n int, args ...string) (sample, []string, error) {
	cmd := exec.CommandContext(ctx, own.crowd, append([]string{strconv.Itoa(n)}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = s.dir, s.environment(), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return sample{}, nil, err
	}
	var got struct {
		sample
		Failed  int      `json:"failed"`
		Outputs []string `json:"outputs"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return sample{}, nil, err
	}
	if got.Failed > 0 {
		return sample{}, nil, fmt.Errorf("%d of %d processes failed", got.Failed, n)
	}
	return got.sample, got.Outputs, nil
}

// reconcile holds receipts, by index, against the entries behind the first b.size:
// lost are the receipts that have no entry, and doubled the places that two have got
// and the entries that nobody has a receipt for.
func (b *book) reconcile(ctx context.Context, receipts map[int64][]string) (lost, doubled int, err error) {
	r, err := disk.Read(b.dir)
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	runs := map[int64]string{}
	for index, e := range r.Lines(ctx, b.size) {
		if e.Err != nil {
			return 0, 0, e.Err
		}
		runs[index] = e.Record.RunID
	}
	b.size = r.Checkpoint().Size
	lost, doubled = compareReceipts(receipts, runs)
	return lost, doubled, nil
}

func compareReceipts(receipts map[int64][]string, runs map[int64]string) (lost, doubled int) {
	for index, list := range receipts {
		doubled += len(list) - 1
		for _, run := range list {
			if runs[index] != run {
				lost++
			}
		}
	}
	for index := range runs {
		if len(receipts[index]) == 0 {
			doubled++
		}
	}
	return lost, doubled
}

// running times fiador run and fiador check without and with a ledger.
func (m *recorded) running(ctx context.Context, t tools, _ ledgerTools, s *scene) error {
	b := m.book(m.sizes.read[0])
	recording := []string{"--ledger", b.dir, "--ledger-key", b.key}
	run := fiadorRun(t, "allowed")
	run.name = withoutWay
	recordedRun := command{withWay, append(slices.Clone(run.args), recording...), 0}
	var err error
	if m.runs, err = s.inTurn(ctx, t, []command{run, recordedRun}, 3, m.sizes.short); err != nil {
		return err
	}
	f := &scene{dir: filepath.Join(s.dir, "folder"), set: s.set, gate: s.gate}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return err
	}
	if _, _, err := f.addFolder(m.sizes.intents); err != nil {
		return err
	}
	check := fiadorCheck(t, profileName, "json", "intents")
	check.name = checkWay
	recordedCheck := command{recordWay, slices.Concat(check.args[:2], []string{"--record"}, recording, check.args[2:]), check.exit}
	if m.checks, err = f.inTurn(ctx, t, []command{check, recordedCheck}, 0, m.sizes.long); err != nil {
		return err
	}
	size, err := sizeOf(b.dir)
	if want := b.size + int64(3+m.sizes.short+m.sizes.long*m.sizes.intents); err == nil && size != want {
		err = fmt.Errorf("the ledger has %d entries instead of %d", size, want)
	}
	return err
}
