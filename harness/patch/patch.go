// Package patch compares a patch with a working tree, and applies it: all of it or
// nothing. A [Plan] says what would change, what a patch may never change, and where the
// tree is not what the run saw.
package patch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// NotAcceptedError says that a pack has no accepted execution, so its files may not be
// applied.
type NotAcceptedError struct{ Why string }

// Error returns the message.
func (e *NotAcceptedError) Error() string { return e.Why }

// Accepted returns the patch of a pack that was verified (strict). It returns nil
// if the run changed nothing, and a *NotAcceptedError if the run was not executed or not
// accepted.
func Accepted(p *pack.Pack) (*pack.Patch, error) {
	var run struct {
		Outcome   string           `json:"kernel_result_kind"`
		Execution *json.RawMessage `json:"execution"`
		Decision  struct {
			Accepted bool `json:"accepted"`
		} `json:"decision"`
	}
	if err := json.Unmarshal(p.File(pack.RunFile), &run); err != nil {
		return nil, &pack.ReadError{File: pack.RunFile, Err: err}
	}
	switch {
	case run.Outcome != string(kernel.OutcomeBundle):
		return nil, &NotAcceptedError{"the run was not allowed: its outcome is " + run.Outcome}
	case run.Execution == nil:
		return nil, &NotAcceptedError{"the run was planned and not executed, so it has no files"}
	case !run.Decision.Accepted:
		return nil, &NotAcceptedError{"the execution was rejected"}
	}
	return p.Patch()
}

// Options says which changes a patch may make.
type Options struct {
	// Overwrite replaces and removes regular files whatever their content, and removes
	// folders with all their content. Links and special files are never replaced.
	Overwrite bool
	Workflows bool     // the patch may write the pipelines of a forge (WorkflowPaths)
	Keep      []string // paths of the tree that the patch must not touch, nor a path above or beneath them

	Missing bool // a file to modify may be missing: the patch creates it then
}

// WorkflowPaths returns the control paths, at the top of a tree, that Options.Workflows
// allows.
func WorkflowPaths() []string {
	return []string{
		".forgejo/workflows", ".gitea/workflows", ".github/actions", ".github/workflows",
		".gitlab-ci.yaml", ".gitlab-ci.yml", ".gitlab/ci", "bitbucket-pipelines.yml",
	}
}

// Fault says why an operation cannot be done.
type Fault struct{ Path, Why string }

// Workflow says whether Options.Workflows would allow the operation.
func (f Fault) Workflow() bool {
	return slices.ContainsFunc(WorkflowPaths(), func(w string) bool { return kernel.Beneath(f.Path, w) })
}

// FileState describes a regular file.
type FileState struct {
	Size       int64
	SHA256     canon.ContentHash // empty if the caller did not ask for it
	Executable bool
}

// Step is one change of a tree. A step without Before finds no file; a step without
// After leaves no file.
type Step struct {
	Path          string
	Before, After *FileState
	Folder        bool // the step removes a folder
	Entries       int  // number of entries in the folder, at any depth

	from pack.Operation
	seen *change.Seen           // what the step replaces or removes; nil: nothing
	held map[string]change.Seen // content of the folder, by path
}

// Content returns the content that the file gets.
func (s Step) Content() ([]byte, error) { return s.from.Bytes() }

// OpFolder makes a folder. A patch has no such operation: there a folder is made for its
// content.
const OpFolder pack.Op = "folder"

// Plan is a patch compared with a working tree. The plan can be applied if Refused
// and Conflicts are empty.
type Plan struct {
	Steps     []Step  // the differences from the tree, by path
	Refused   []Fault // paths that a patch may never change, whatever the tree has there
	Conflicts []Fault // paths where the tree differs from what the run saw

	how    Options
	tree   *target
	made   Files
	ops    map[string]pack.Operation
	filled map[string]bool // paths that get a file beneath them
}

// Files is a set of files that operations make.
type Files struct {
	After func(pack.Operation) (*FileState, error) // the file after an operation; nil: none
	Open  tree.Content                             // by path
}

// clockStep is longer than one step of the clock of any file system. A change made
// clockStep later has a different time.
const clockStep = 20 * time.Millisecond

// NewPlan compares operations with the content of the folder dir, and changes nothing.
// dir is an absolute path without links. PlanPatch follows no link.
//
// An operation is done already if the file has the wanted content and the wanted
// executable bit. Otherwise create needs an empty place; modify and delete need a file
// with the hash that the run saw. A delete without such a hash is about a path that was
// a folder, and needs an empty folder.
func NewPlan(dir string, ops []pack.Operation, how Options) (*Plan, error) {
	at := map[string]pack.Operation{}
	for _, o := range ops {
		at[o.Path] = o
	}
	return NewPlanOf(dir, ops, how, Files{After: after, Open: func(name string) (io.ReadCloser, error) {
		b, err := at[name].Bytes()
		return io.NopCloser(bytes.NewReader(b)), err
	}})
}

// NewPlanOf is NewPlan for operations whose files do not stand in the operations.
func NewPlanOf(dir string, ops []pack.Operation, how Options, made Files) (*Plan, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	p := &Plan{how: how, tree: t, made: made, ops: map[string]pack.Operation{}, filled: map[string]bool{}}
	for _, o := range ops {
		p.ops[o.Path] = o
		if o.Op != pack.OpDelete {
			for _, folder := range foldersAbove(o.Path) {
				p.filled[folder] = true
			}
		}
	}
	if control := pathname.Inspect(t.place).Control; control != "" {
		p.refuse(".", "the folder lies in a control path, %q", control)
		return p, nil
	}
	err = p.weighAll(ops)
	if err == nil {
		err = p.refuseRepositories(ops)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	slices.SortFunc(p.Steps, func(a, b Step) int { return canon.Compare(a.Path, b.Path) })
	sortFaults(p.Refused)
	sortFaults(p.Conflicts)
	return p, nil
}

func sortFaults(list []Fault) {
	slices.SortFunc(list, func(a, b Fault) int { return canon.Compare(a.Path, b.Path) })
}

// Close releases the tree.
func (p *Plan) Close() error { return p.tree.Close() }

// Counts returns how many steps create, modify and delete something.
func (p *Plan) Counts() (created, modified, deleted int) {
	for _, s := range p.Steps {
		switch {
		case s.After == nil:
			deleted++
		case s.Before == nil:
			created++
		default:
			modified++
		}
	}
	return created, modified, deleted
}

func (p *Plan) refuse(path, format string, args ...any) {
	p.Refused = append(p.Refused, Fault{path, fmt.Sprintf(format, args...)})
}

func (p *Plan) conflict(path, format string, args ...any) {
	p.Conflicts = append(p.Conflicts, Fault{path, fmt.Sprintf(format, args...)})
}

// weighAll compares the operations with the tree. A change that somebody makes during
// the reading, or later, differs at least in its time from what was seen.
func (p *Plan) weighAll(ops []pack.Operation) error {
	stands, empty := map[string]standing{}, true
	for _, o := range ops {
		if why := p.forbidden(o.Path); why != "" {
			p.refuse(o.Path, "%s", why)
			continue
		}
		now, err := p.tree.look(o.Path)
		if err != nil {
			return err
		}
		stands[o.Path], empty = now, empty && now.kind == ""
	}
	if !empty {
		time.Sleep(clockStep)
	}
	for _, o := range ops {
		if now, ok := stands[o.Path]; ok {
			if err := p.weigh(o, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// weigh compares one operation with the entry at its path.
func (p *Plan) weigh(o pack.Operation, now standing) error {
	if now.at != o.Path {
		// A folder can take the place of a file that the patch deletes.
		if above, ok := p.ops[now.at]; !ok || above.Op != pack.OpDelete && above.Op != OpFolder || now.kind != change.KindFile || o.Op == pack.OpDelete {
			p.conflict(o.Path, "%s stands at %q, above it", kindName(now.kind), now.at)
			return nil
		}
		now = standing{}
	}
	switch now.kind {
	case "":
		return p.onNothing(o)
	case change.KindFile:
		return p.onFile(o, now)
	case change.KindFolder:
		return p.onFolder(o, now)
	}
	p.conflict(o.Path, "%s stands there", kindName(now.kind))
	return nil
}

func (p *Plan) onNothing(o pack.Operation) error {
	switch {
	case o.Op == pack.OpDelete:
		return nil
	case o.Op == pack.OpModify && !p.how.Overwrite && !p.how.Missing:
		p.conflict(o.Path, "nothing stands there, and the run saw a file")
		return nil
	}
	return p.step(o, nil, nil)
}

func (p *Plan) onFile(o pack.Operation, now standing) error {
	was, err := p.tree.state(o.Path, now.seen)
	if err != nil {
		return err
	}
	to, err := p.made.After(o)
	if err != nil {
		return err
	}
	switch {
	case to != nil && *to == was:
		return nil
	case p.how.Overwrite || o.BeforeSHA256 != "" && o.BeforeSHA256 == was.SHA256 && o.Op != pack.OpCreate:
		return p.step(o, &was, now.seen)
	case o.Op == pack.OpCreate && was.SHA256 == to.SHA256:
		p.conflict(o.Path, "a file of that content stands there, and %s", executableName(was.Executable))
	case o.Op == pack.OpCreate:
		p.conflict(o.Path, "a file stands there already, %s", was.SHA256)
	case o.BeforeSHA256 == "":
		p.conflict(o.Path, "a file stands there, %s, and the run saw none", was.SHA256)
	default:
		p.conflict(o.Path, "the file is %s, and the run saw %s", was.SHA256, o.BeforeSHA256)
	}
	return nil
}

// onFolder handles a folder at the path that an operation creates, modifies or deletes.
func (p *Plan) onFolder(o pack.Operation, now standing) error {
	switch {
	case o.Op == OpFolder, o.Op == pack.OpDelete && p.filled[o.Path]:
		return nil // the folder stays for the files that the patch creates in it
	case o.Op != pack.OpDelete || o.BeforeSHA256 != "":
		p.conflict(o.Path, "a folder stands there")
		return nil
	}
	held := map[string]change.Seen{}
	err := p.tree.inside(o.Path, now.seen, func(name string, seen *change.Seen) error {
		if why := p.forbidden(name); why != "" {
			p.refuse(name, "%s, and the patch deletes the folder %q", why, o.Path)
		}
		if held[name] = *seen; len(held) > maxFolderEntries {
			return fmt.Errorf("folder %q holds more than %d files and folders", o.Path, maxFolderEntries)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(held) > 0 && !p.how.Overwrite {
		same, err := p.heldThen(o, held)
		switch {
		case err != nil:
			return err
		case o.BeforeTreeSHA256 == "":
			p.conflict(o.Path, "the folder that the run deleted is not empty: it holds %d", len(held))
			return nil
		case !same:
			p.conflict(o.Path, "the folder does not hold what the run saw in it: it holds %d", len(held))
			return nil
		}
	}
	p.Steps = append(p.Steps, Step{Path: o.Path, Folder: true, Entries: len(held), from: o, seen: now.seen, held: held})
	return nil
}

// heldThen says whether a folder has the content that the run saw in it. Empty folders
// do not count.
func (p *Plan) heldThen(o pack.Operation, held map[string]change.Seen) (bool, error) {
	if o.BeforeTreeSHA256 == "" {
		return false, nil
	}
	files := map[string]canon.ContentHash{}
	time.Sleep(clockStep)
	for name, seen := range held {
		switch {
		case seen.Kind == change.KindFolder:
			continue
		case seen.Kind != change.KindFile || len(files) == pack.MaxTree:
			return false, nil
		}
		state, err := p.tree.state(name, &seen)
		if err != nil {
			return false, err
		}
		files[strings.TrimPrefix(name, o.Path+"/")] = state.SHA256
	}
	return pack.TreeHash(files) == o.BeforeTreeSHA256, nil
}

// maxFolderEntries is the maximum number of entries of a folder that a patch deletes.
const maxFolderEntries = 100_000

func (p *Plan) step(o pack.Operation, was *FileState, seen *change.Seen) error {
	to, err := p.made.After(o)
	if err != nil {
		return err
	}
	p.Steps = append(p.Steps, Step{Path: o.Path, Before: was, After: to, from: o, seen: seen})
	return nil
}

// after returns the file that an operation makes, or nil.
func after(o pack.Operation) (*FileState, error) {
	if o.Op == pack.OpDelete {
		return nil, nil
	}
	b, err := o.Bytes()
	if err != nil {
		return nil, &pack.ReadError{File: pack.PatchFile, Err: err}
	}
	return &FileState{Size: int64(len(b)), SHA256: canon.Sum(b), Executable: o.Executable}, nil
}

// forbidden says why a path may not be changed, or returns "".
func (p *Plan) forbidden(name string) string {
	for _, k := range p.how.Keep {
		if kernel.Beneath(name, k) || kernel.Beneath(k, name) {
			return "the pack itself is there"
		}
	}
	if fault := pathname.Inspect(name).Fault; fault != "" {
		return "the path cannot be used (" + fault + ")"
	}
	rest := name
	if p.how.Workflows {
		for _, w := range WorkflowPaths() {
			if kernel.Beneath(name, w) {
				rest = name[len(w):]
			}
		}
	}
	// If the folder itself is the first half of a control path, names in the folder are
	// the second half.
	if control := pathname.Inspect(path.Join(p.tree.place, rest)).Control; control != "" {
		return fmt.Sprintf("%q is a control path", control)
	}
	return ""
}

// Supported returns nil if this system can apply patches.
func Supported() error { return tree.CanApply() }

// Old returns the current content of the file of a step. It returns an error if the file
// differs from the file that the plan saw.
func (p *Plan) Old(s Step) ([]byte, error) {
	if s.Before == nil {
		return nil, nil
	}
	b, err := p.tree.content(s.Path, s.seen)
	if err != nil {
		return nil, err
	}
	if canon.Sum(b) != s.Before.SHA256 {
		return nil, &tree.ConflictError{Path: s.Path}
	}
	return b, nil
}

// Apply applies all steps or none; state is the folder of journals. A
// *tree.ConflictError says that something was changed since NewPlan, for example
// the folder of a file; then nothing is applied. tree.Apply describes
// tree.ErrApplied and tree.ErrUnfinished. Every other error is a *result.RunError,
// and nothing is applied.
func (p *Plan) Apply(ctx context.Context, state string) error {
	changes, err := p.changes()
	if err == nil {
		err = tree.ApplySeen(ctx, state, p.tree.dir, changes, p.made.Open, p.looked())
	}
	if err == nil {
		return nil
	}
	e := runerr.Evidence("nothing was applied", err)
	conflict, changed := errors.AsType[*tree.ConflictError](err)
	fault := JournalFault(state, err)
	switch {
	case errors.Is(err, tree.ErrApplied), errors.Is(err, tree.ErrUnfinished):
		e.Message = err.Error()
		e.Hint = `give the folder room and permission, and end it with "fiador apply --recover"`
		if fault != nil {
			e.Message = fmt.Sprintf("%s (in the state folder %q)", e.Message, state)
			e.Hint = `give the state folder room and permission, and end it with "fiador apply --recover"`
		}
	case changed:
		return conflict
	case fault != nil:
		e.Message = fmt.Sprintf("nothing was applied: the journal in the state folder %q cannot be written: %s", state, fault)
		e.Hint = "give the state folder room and permission, or set XDG_STATE_HOME to a folder of yours elsewhere"
	}
	return e
}

// JournalFault returns why the journal in the state folder could not be read or written.
// It returns nil if an error of tree.Apply or tree.Recover is about the tree.
func JournalFault(state string, err error) error {
	pe, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return nil
	}
	within := func(dir, name string) bool {
		rel, err := filepath.Rel(dir, name)
		return err == nil && filepath.IsLocal(rel)
	}
	if filepath.IsAbs(pe.Path) {
		// Folders above the state folder are created together with it.
		if within(state, pe.Path) || within(pe.Path, state) {
			return pe.Err
		}
		return nil
	}
	// The sandbox names entries of the state folder relative to that folder.
	if regexp.MustCompile(`^apply-[0-9a-f]+-[0-9a-f]+(/([0-9]+|record\.new|apply|undo|clean))?$`).MatchString(pe.Path) {
		return pe.Err
	}
	return nil
}

// NothingApplied says whether an error of Apply leaves the tree as it was.
func NothingApplied(err error) bool {
	return !errors.Is(err, tree.ErrApplied) && !errors.Is(err, tree.ErrUnfinished)
}

// changes returns the steps, bound to the entries that were seen in the tree.
func (p *Plan) changes() ([]change.Change, error) {
	list := make([]change.Change, len(p.Steps))
	for i, s := range p.Steps {
		c := change.Change{Path: s.Path, Kind: change.KindDeleted, Before: s.seen}
		switch {
		case s.After != nil:
			c.Kind, c.Size, c.Executable = change.KindFile, s.After.Size, s.After.Executable
			if _, err := hex.Decode(c.SHA256[:], []byte(s.After.SHA256.Hex())); err != nil {
				return nil, err
			}
		case s.from.Op == OpFolder, p.filled[s.Path]:
			c.Kind = change.KindFolder
		}
		list[i] = c
	}
	return list, nil
}

// looked returns the observations that the steps depend on.
func (p *Plan) looked() tree.Looked {
	l := tree.Looked{Dir: *p.tree.top, Folders: map[string]change.Seen{}, Beneath: map[string]map[string]change.Seen{}}
	for _, s := range p.Steps {
		if s.Folder {
			l.Beneath[s.Path] = s.held
		}
		for _, folder := range foldersAbove(s.Path) {
			if seen := p.tree.above[folder]; seen != nil && seen.Kind == change.KindFolder {
				l.Folders[folder] = *seen
			}
		}
	}
	return l
}

// foldersAbove returns the folders above a path, the topmost first.
func foldersAbove(name string) []string {
	var list []string
	for i := range len(name) {
		if name[i] == '/' {
			list = append(list, name[:i])
		}
	}
	return list
}

func kindName(k change.Kind) string {
	names := map[change.Kind]string{change.KindFile: "a file", change.KindFolder: "a folder", change.KindLink: "a symbolic link"}
	return cmp.Or(names[k], "a special file")
}

func executableName(yes bool) string {
	return map[bool]string{true: "it can be executed", false: "it cannot be executed"}[yes]
}
