// Package reproduce runs the intent of a pack again, and names the first place at which a
// run differs from the pack.
package reproduce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/toolio"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// MaxRuns is the maximum number of reproductions of one run.
const MaxRuns = 1000

// Original is the run of a pack, which can be made again.
type Original struct {
	Result result.RunResult
	Digest canon.ContentHash // digest of the canonical subset

	pack     *pack.Pack
	subset   map[string]any
	observed observed
}

// Read reads the run of a pack that was verified at level strict. The error,
// always a *result.RunError, says that this program cannot reproduce the run.
func Read(p *pack.Pack) (*Original, error) {
	text := p.File(pack.RunFile)
	var stated struct {
		Kernel string `json:"kernel_version"`
	}
	if err := json.Unmarshal(text, &stated); err != nil {
		return nil, noOriginal(pack.RunFile, err)
	}
	if stated.Kernel != kernel.Version {
		return nil, runerr.New(result.CodeEvidence, "the pack is of kernel "+canon.Quote(stated.Kernel)+" and this is kernel "+strconv.Quote(kernel.Version)+": its results cannot be the same",
			"reproduce it with a fiador of that kernel; fiador version says which one it is", runerr.File(pack.RunFile), runerr.At("/kernel_version"))
	}
	res, digest, err := testimony.ReadResult(text)
	if err != nil {
		return nil, noOriginal(pack.RunFile, err)
	}
	doc, err := canon.Parse(text, result.MaxBytes)
	if err != nil {
		return nil, noOriginal(pack.RunFile, err)
	}
	o := &Original{Result: res, Digest: digest, pack: p, subset: result.Subset(doc.Value().(map[string]any))}
	if o.observed, err = observedOf(p); err != nil {
		return nil, err
	}
	var tested struct {
		Results []json.RawMessage `json:"test_results"`
	}
	if json.Unmarshal(p.File(pack.EvidenceFile), &tested) == nil && len(tested.Results) > 0 {
		return nil, ofWorkItem()
	}
	return o, nil
}

// ofWorkItem is the error for the pack of a work item: its rules and its test are no part of an
// ordinary run.
func ofWorkItem() error {
	return runerr.New(result.CodeEvidence, "the pack is that of a work item, whose test runs in a sandbox of its own", "fiador work replay runs the item of its receipt again")
}

func noOriginal(file string, cause error) *result.RunError {
	return runerr.New(result.CodeEvidence, file+" of the pack cannot be read: "+canon.Cut(cause.Error()),
		"fiador pack verify says what is wrong with it", runerr.File(file), runerr.Because(cause))
}

// Gated says whether a layer of the gated tree took part in the decision.
func (o *Original) Gated() bool {
	return slices.ContainsFunc(o.Result.PolicyProvenance.Modules, func(m result.ModuleDigest) bool {
		return strings.HasPrefix(m.Name, modulesOfTree)
	})
}

// CheckIntent refuses an intent file that differs from the run's intent file in any byte, and
// that of a work item that was executed.
func (o *Original) CheckIntent(name string, source []byte) error {
	recorded, now := o.Result.Intent.SHA256, canon.Sum(source)
	if recorded == now {
		var intent struct {
			Context struct {
				Item json.RawMessage `json:"work_item"`
			} `json:"context"`
		}
		if json.Unmarshal(source, &intent) == nil && intent.Context.Item != nil && o.Result.Execution != nil {
			return ofWorkItem()
		}
		return nil
	}
	return runerr.New(result.CodeEvidence, name+": not the intent of the pack: "+string(recorded)+" in the pack, "+string(now)+" here",
		"give the file that was decided, byte for byte; sha256sum shows its hash", runerr.File(name), runerr.With("recorded", string(recorded)), runerr.With("now", string(now)))
}

// Prefixes of module names; each names the layer of the module.
const (
	modulesOfProgram = "builtin/"
	modulesOfTree    = "repo/"
	modulesOfOrg     = "org/"
)

// CheckGate refuses a gate that differs from the gate that decided. It names the first
// difference: the profile, a module, a digest, or a limit.
func (o *Original) CheckGate(gate *harness.Gate) error {
	recorded, now := o.Result.PolicyProvenance, gate.Provenance
	if name := o.Result.Policy.Name; name != gate.Profile.Name {
		return otherPolicy("/policy/name", "the profile of the pack is "+strconv.Quote(name)+", and here it is "+strconv.Quote(gate.Profile.Name),
			"give the profile of that name with --policy")
	}
	if err := checkModules(recorded.Modules, now.Modules); err != nil {
		return err
	}
	a, errA := canon.Canonical(recorded)
	b, errB := canon.Canonical(now)
	if err := errors.Join(errA, errB); err != nil {
		return runerr.Internal("the digests of a policy have no canonical form", err)
	}
	if bytes.Equal(a, b) {
		return nil
	}
	d := testimony.FirstDifference(a, b)
	hint := "use the fiador that made the pack: its built-in policy is another"
	switch {
	case d.Pointer == "/tools_sha256":
		hint = "give the folder of the tools as it was with --tools, or leave --tools out where the pack has none"
	case !gate.Builtin && d.Pointer != "/capabilities_sha256":
		hint = "give the profile as it was with --policy"
	}
	return otherPolicy("/policy_provenance"+d.Pointer,
		strings.TrimPrefix(d.Pointer, "/")+" of the policy is "+result.ValueText(d.A, d.AbsentInA)+" in the pack and "+result.ValueText(d.B, d.AbsentInB)+" here", hint)
}

// checkModules names the first module that is not in both lists. The lists are sorted by
// name.
func checkModules(recorded, now []result.ModuleDigest) error {
	i, then, here := firstPair(recorded, now, func(m result.ModuleDigest) string { return m.Name })
	fault := func(name, msg string, extra bool) error {
		return otherPolicy("/policy_provenance/modules/"+strconv.Itoa(i), "policy module "+canon.Quote(name)+msg, moduleHint(name, extra))
	}
	switch {
	case then == nil && here == nil:
		return nil
	case here == nil:
		return fault(then.Name, " decided in the pack and is missing here", false)
	case then == nil:
		return fault(here.Name, " is extra: it did not decide in the pack", true)
	}
	return fault(here.Name, " has another text: "+string(then.SHA256)+" in the pack, "+string(here.SHA256)+" here", false)
}

func moduleHint(name string, extra bool) string {
	switch {
	case strings.HasPrefix(name, modulesOfProgram):
		return "use the fiador that made the pack: its built-in policy is another"
	case strings.HasPrefix(name, modulesOfTree):
		return "give with --tree the folder that was gated, with its " + harness.RepoPolicy + " as it was"
	case strings.HasPrefix(name, modulesOfOrg) && extra:
		return "leave out the --org-policy that it is of"
	case strings.HasPrefix(name, modulesOfOrg):
		return "give its folder as it was with --org-policy"
	}
	return "give the folder of the profile as it was with --policy"
}

func otherPolicy(pointer, msg, hint string) *result.RunError {
	return runerr.New(result.CodeProfile, msg, hint, runerr.File(pack.RunFile), runerr.At(pointer))
}

// Counted is a divergence that several runs had at one place. Its values come from the
// first of these runs.
type Counted struct {
	Divergence
	Runs int
}

// Result is the result of one or more reproductions.
type Result struct {
	Runs, Matches int
	Differences   []Counted // in the order in which they were found
}

// Again says how a run is reproduced.
type Again struct {
	Source  []byte // the intent
	Path    string // name of the intent in messages
	Folders harness.Folders
	Runs    int

	// Begin is called before each run, from 0 on; it may be nil.
	Begin func(run int)
}

// Reproduce runs the intent of the pack again and compares each run with the pack. It
// compares the canonical subset, and parts of an execution outside that subset: deleted
// and executable paths, the entries before the execution, and the output of every
// command. Nothing is recorded, and a model's answers come from the pack. The error,
// always a *result.RunError, says that a run had no result; then nothing is known.
func (o *Original) Reproduce(ctx context.Context, deps harness.Deps, gate *harness.Gate, again Again) (Result, error) {
	deps.Recorder, deps.Asker = nil, nil // in model mode none no service is asked: its answers would be others
	got := Result{}
	for i := range again.Runs {
		if again.Begin != nil {
			again.Begin(i)
		}
		d, differs, err := o.once(ctx, deps, gate, again)
		if ctx.Err() != nil {
			return Result{}, o.interrupted(got)
		}
		if err != nil {
			return Result{}, again.failed(i, err)
		}
		if got.Runs++; !differs {
			got.Matches++
			continue
		}
		got.count(d)
	}
	return got, nil
}

// interrupted is the error for a run that was told to stop, after the runs in got.
func (o *Original) interrupted(got Result) *result.RunError {
	e := runerr.Internal("interrupted: the run was not made again", nil)
	if o.Result.ExecutionMode == harness.ModeExecuteSandbox {
		e = runerr.Stopped()
	}
	if got.Runs > 0 {
		e.Message += "; of the runs before it, " + strconv.Itoa(got.Matches) + " of " + strconv.Itoa(got.Runs) + " matched"
		e.Details = map[string]any{"runs": got.Runs, "matches": got.Matches}
	}
	return e
}

func (r *Result) count(d Divergence) {
	same := func(c Counted) bool { return c.Place() == d.Place() }
	if at := slices.IndexFunc(r.Differences, same); at >= 0 {
		r.Differences[at].Runs++
		return
	}
	r.Differences = append(r.Differences, Counted{d, 1})
}

// failed names the run that failed, among several.
func (a Again) failed(i int, err error) *result.RunError {
	e := *runerr.Of(err)
	if a.Runs > 1 {
		e.Message = "run " + strconv.Itoa(i+1) + " of " + strconv.Itoa(a.Runs) + ": " + e.Message
	}
	return &e
}

func (o *Original) once(ctx context.Context, deps harness.Deps, gate *harness.Gate, again Again) (d Divergence, differs bool, err error) {
	if o.Result.ModelMode != harness.ModelNone {
		deps.Caller, err = modelPlayer(o.pack)
		if err == nil {
			deps.Asker, err = toolPlayer(o.pack)
		}
		if err != nil {
			return d, false, err
		}
	}
	rep, err := harness.Run(ctx, deps, gate, harness.Request{
		Source: again.Source, Path: again.Path, Mode: o.Result.ExecutionMode, ModelMode: o.Result.ModelMode, Folders: again.Folders,
	})
	if d, differs := beyond(err); differs {
		return d, true, nil
	}
	if err != nil {
		return d, false, err
	}
	if rep.Execution != nil {
		defer func() { err = errors.Join(err, rep.Execution.Close()) }()
	}
	return o.compare(rep)
}

// modelPlayer answers the calls of one run from the recording of the pack. A pack of a
// run without calls may have no recording.
func modelPlayer(p *pack.Pack) (execute.Caller, error) {
	text := p.File(pack.ModelFile)
	if text == nil {
		return model.NewPlayer(pack.ModelIO{}), nil
	}
	recorded, err := pack.ParseModelIO(text)
	if err != nil {
		return nil, noOriginal(pack.ModelFile, err)
	}
	return model.NewPlayer(recorded), nil
}

// toolPlayer answers the calls of tools that no process answers from the recording of the
// pack, as modelPlayer does.
func toolPlayer(p *pack.Pack) (execute.Asker, error) {
	text := p.File(pack.ToolFile)
	if text == nil {
		return toolio.NewPlayer(pack.ToolIO{}), nil
	}
	recorded, err := pack.ParseToolIO(text)
	if err != nil {
		return nil, noOriginal(pack.ToolFile, err)
	}
	return toolio.NewPlayer(recorded), nil
}

// beyond is the divergence of a run that made a call without an answer in the pack: with
// the same intent, this run continued after the point where the original ended.
func beyond(err error) (Divergence, bool) {
	re, failed := errors.AsType[*result.RunError](err)
	_, service := errors.AsType[*toolio.Error](err)
	if failed && service {
		return Divergence{File: pack.ToolFile, Recorded: fmt.Sprint("no answer to request ", re.Details["request_hash"]), Now: "a call with it"}, true
	}
	if _, asked := errors.AsType[*model.Error](err); !failed || !asked {
		return Divergence{}, false
	}
	prompt, called := re.Details["prompt_hash"].(string)
	return Divergence{File: pack.ModelFile, Recorded: "no answer to prompt " + prompt, Now: "a call with it"}, called
}
