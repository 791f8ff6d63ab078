package execute

import (
	"sync"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
)

// Cache has the answers of a session, which is one process, that may be given again. The zero
// value is empty. It is safe for concurrent runs.
//
// A call is answered from the cache if its adapter says deterministic, its command has neither
// network nor secret, and its execution shows no folder of the machine besides the inputs. An
// earlier call with the same cacheKey must have run, at its first attempt, to exit code 0, and
// must have left no change in the work folder. While a folder for temporary files has an
// entry, no call is answered and no answer is kept: a later command could read that entry.
type Cache struct {
	mu    sync.Mutex
	kept  map[canon.ContentHash]answered
	bytes int
}

// maxCached is the number of bytes of answers and streams that a cache keeps at most.
const maxCached = 64 << 20

// answered is a call that has run.
type answered struct {
	by             pack.CachedCall
	end            evidence.End
	answer         []byte
	stdout, stderr command.Captured
}

// cacheKey is what the answer of a deterministic call depends on. The request has the tool,
// the argument list, the environment and standard input.
type cacheKey struct {
	AdapterSHA256    canon.ContentHash `json:"adapter_sha256"`
	ExecutableSHA256 canon.ContentHash `json:"executable_sha256"`
	RequestSHA256    canon.ContentHash `json:"request_sha256"`
	Inputs           []keyFile         `json:"inputs"`
	Written          []keyFile         `json:"written"` // the work folder before the call
	Isolation        sandbox.Isolation `json:"isolation"`
	Limits           sandbox.Limits    `json:"limits"`
	TimeoutMS        int64             `json:"timeout_ms"`
	Protected        []string          `json:"protected"`
}

type keyFile struct {
	Path       string            `json:"path"`
	Kind       change.Kind       `json:"kind"`
	SHA256     canon.ContentHash `json:"sha256"`
	Executable bool              `json:"executable"`
	Target     string            `json:"target"`
}

// cacheKey returns the key of a call as the work folder is now, or "" for a call that is
// neither answered from the cache nor kept.
func (w *performance) cacheKey(b *adapter.Bound) canon.ContentHash {
	box := w.task.Sandbox
	if w.task.Cache == nil || w.scratch || b.Adapter.Type != adapter.CLI || !b.Adapter.Deterministic || len(b.Hosts) > 0 || len(b.Secrets) > 0 ||
		box.Work != "" || box.Tree != "" || len(box.Read) > 0 {
		return ""
	}
	key := cacheKey{
		AdapterSHA256: b.Adapter.SHA256, ExecutableSHA256: ProgramHash(b.Argv[0]), RequestSHA256: b.RequestHash,
		Inputs: []keyFile{}, Written: []keyFile{},
		Isolation: w.p.Isolation, Limits: box.Limits, TimeoutMS: w.task.Budget.Milliseconds(), Protected: box.Protect,
	}
	for _, f := range w.p.Observed.Inputs {
		key.Inputs = append(key.Inputs, keyFile{Path: f.Path, Kind: change.KindFile, SHA256: evidence.Hash(f.SHA256)})
	}
	changes, err := w.p.box.ChangesSoFar()
	if err != nil || key.ExecutableSHA256 == "" {
		return ""
	}
	for _, c := range changes {
		if c.Kind == change.KindOther || c.Kind == change.KindFile && c.SHA256 == [32]byte{} {
			return "" // its content is not known
		}
		key.Written = append(key.Written, keyFile{c.Path, c.Kind, evidence.Hash(c.SHA256), c.Executable, c.Target})
	}
	_, hash, err := canon.Artifact(key)
	if err != nil {
		return "" // a path that is not UTF-8
	}
	return hash
}

// cached returns the earlier call with a key.
func (w *performance) cached(key canon.ContentHash) (answered, bool) {
	if key == "" {
		return answered{}, false
	}
	w.task.Cache.mu.Lock()
	defer w.task.Cache.mu.Unlock()
	kept, ok := w.task.Cache.kept[key]
	return kept, ok
}

// keep keeps the answer of a call that has run, if the call has left nothing behind: then its
// key is still the same.
func (w *performance) keep(key canon.ContentHash, at int, a attempt) {
	if key == "" || a.Failure != "" || w.cacheKey(a.by) != key {
		return
	}
	c := w.task.Cache
	c.mu.Lock()
	defer c.mu.Unlock()
	size := len(a.answer) + len(w.p.Stdout.Bytes) + len(w.p.Stderr.Bytes)
	if _, there := c.kept[key]; there || c.bytes+size > maxCached {
		return
	}
	if c.kept == nil {
		c.kept = map[canon.ContentHash]answered{}
	}
	c.kept[key] = answered{pack.CachedCall{RunID: w.task.RunID, Action: at}, *a.end, a.answer, w.p.Stdout, w.p.Stderr}
	c.bytes += size
}
