package asset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// Dir is a version directory that is written. Several goroutines can use it at once, but not with
// Manifest, Seal and Close. Until Close no other process can resume it; on Windows, where folders
// have no locks, one can.
type Dir struct {
	Files  // the same directory for reading
	side   string
	above  *Files // OUT
	out    string
	place  string // SIDE/RUN_ID
	locked *os.File
	temps  atomic.Int64 // temporary files so far

	syncing sync.Mutex  // is held while the folder assets is synced
	fresh   atomic.Bool // whether that folder has names that are not synced

	mu    sync.Mutex // guards the rest
	kept  map[string]bool
	items map[string]item
}

// An item is an asset in the manifest. Without a case the asset belongs to the run.
type item struct {
	AssetID string  `json:"asset_id"`
	CaseID  *string `json:"case_id"`
	Href    string  `json:"href"`
	Kind    Kind    `json:"kind"`
	SHA256  string  `json:"sha256"`
	Side    string  `json:"side"`
	Size    int64   `json:"size_bytes"`
}

type manifest struct {
	GeneratedAt   string `json:"generated_at"`
	Items         []item `json:"items"`
	SchemaVersion string `json:"schema_version"`
}

var manifestPlan canon.Plan[manifest]

// Create makes the version directory OUT/SIDE/RUN_ID, and the folders above it that are missing.
// The error wraps ErrExists if something stands at the place.
func Create(out, side, runID string) (*Dir, error) { return begin(out, side, runID, true) }

// Resume opens a version directory that Create has made, and removes its temporary files. The
// manifest begins empty: Adopt adds the assets of finished cases. The error wraps ErrBusy if
// another process has the directory, and fs.ErrNotExist if there is none.
func Resume(out, side, runID string) (*Dir, error) { return begin(out, side, runID, false) }

func begin(out, side, runID string, create bool) (*Dir, error) {
	if err := checkID(runID); err != nil {
		return nil, err
	}
	if side != "baseline" && side != "new" {
		return nil, at(side, errors.New("is no side: a side is baseline or new"))
	}
	if create {
		if err := os.MkdirAll(out, 0o777); err != nil {
			return nil, at(filepath.Base(out), err)
		}
	}
	above, err := Open(out)
	if err != nil {
		return nil, err
	}
	place := side + "/" + runID
	d := &Dir{side: side, above: above, out: out, place: place, kept: map[string]bool{}, items: map[string]item{}}
	if create {
		err = makeFolder(above.root, side, nil)
		if err == nil {
			err = makeFolder(above.root, place, ErrExists)
		}
	}
	if err == nil {
		err = withoutLinks(above.root, place, true)
	}
	if err == nil {
		err = errors.Join(syncFolder(above.root, side), syncFolder(above.root, "."))
	}
	if err == nil {
		d.root, err = above.root.OpenRoot(place)
	}
	if err != nil {
		return nil, errors.Join(at(place, err), above.Close())
	}
	if err := d.prepare(); err != nil {
		_ = d.Close()
		return nil, at(place, err)
	}
	return d, nil
}

// prepare locks the directory, makes the folder of assets, and removes temporary files.
func (d *Dir) prepare() (err error) {
	if d.locked, err = d.root.Open("."); err != nil {
		return err
	}
	if err := lock(d.locked); err != nil {
		return err
	}
	if err := makeFolder(d.root, assets, nil); err != nil {
		return err
	}
	d.fresh.Store(true) // a killed process may have left names that are not synced
	names, _, err := d.Names()
	for _, name := range names {
		if err == nil && strings.HasPrefix(path.Base(name), tempPrefix) {
			err = d.root.Remove(name)
		}
	}
	return err
}

// Close unlocks the directory. Afterwards it cannot be used.
func (d *Dir) Close() error {
	return errors.Join(d.locked.Close(), d.root.Close(), d.above.Close())
}

// InPlace says whether the directory still stands at OUT/SIDE/RUN_ID, and no link. The error wraps
// ErrMoved if something else stands there: what was written lies where the directory was moved.
func (d *Dir) InPlace() error {
	same := func(there fs.FileInfo, err error, here *os.Root) error {
		own, other := here.Stat(".")
		if err != nil || other != nil || !os.SameFile(there, own) {
			return ErrMoved
		}
		return nil
	}
	info, err := os.Stat(d.out)
	if err := same(info, err, d.above.root); err != nil {
		return err
	}
	if err := withoutLinks(d.above.root, d.place, true); err != nil {
		return at(d.place, ErrMoved)
	}
	info, err = d.above.root.Lstat(d.place)
	return at(d.place, same(info, err, d.root))
}

// Keep keeps a content as an asset of a case, or of the run if caseID is empty. It returns the
// asset's href, and its SHA-256 as 64 hexadecimal digits. Equal content has one file. The asset is
// durable after the next Write.
func (d *Dir) Keep(kind Kind, caseID string, content []byte) (href, sha256 string, err error) {
	if err := checkOwner(caseID); err != nil {
		return "", "", err
	}
	sha256 = canon.Sum(content).Hex()
	href = assets + "/" + sha256 + ".bin"
	if utf8.Valid(content) {
		href = assets + "/" + sha256 + ".txt"
	}
	d.mu.Lock()
	kept := d.kept[href]
	d.mu.Unlock()
	if !kept {
		err = d.put(href, content)
	}
	if err != nil {
		return "", "", err
	}
	d.add(kind, caseID, href, sha256, int64(len(content)))
	return href, sha256, nil
}

// Meta writes the metadata of a failed attempt, replaces what an earlier run of the case has left
// there, and returns their href. The file is durable after the next Write.
func (d *Dir) Meta(caseID string, attempt int, text []byte) (href string, err error) {
	if err := checkID(caseID); err != nil {
		return "", err
	}
	href = MetaHref(caseID, d.side, attempt)
	if err := d.put(href, text); err != nil {
		return "", err
	}
	d.add(FailureMeta, caseID, href, canon.Sum(text).Hex(), int64(len(text)))
	return href, nil
}

// MetaHref returns the href of the metadata of a failed attempt.
func MetaHref(caseID, side string, attempt int) string {
	return fmt.Sprintf("%s/%s.%s.attempt%d.meta.json", assets, caseID, side, attempt)
}

// Adopt adds an asset that a resumed directory has to the manifest. It refuses an asset whose
// content does not have the hash that its name says.
func (d *Dir) Adopt(kind Kind, caseID, href string) error {
	folder, name := path.Split(href)
	if folder != assets+"/" || href == ManifestFile || strings.HasPrefix(name, tempPrefix) {
		return at(href, errors.New("is no asset: move it to another directory"))
	}
	if err := checkOwner(caseID); err != nil {
		return err
	}
	sha, size, err := d.Hash(href, math.MaxInt64)
	if err != nil {
		return err
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(name, ".txt"), ".bin")
	if stem != name && stem != sha {
		return at(href, errors.New("is damaged, for its content has another hash: run the case again"))
	}
	d.add(kind, caseID, href, sha, size)
	return nil
}

// checkOwner refuses what neither names a case nor, empty, stands for the run.
func checkOwner(caseID string) error {
	if caseID == "" {
		return nil
	}
	return checkID(caseID)
}

// add adds an item to the manifest.
func (d *Dir) add(kind Kind, caseID, href, sha string, size int64) {
	i, owner := item{Href: href, Kind: kind, SHA256: sha, Side: d.side, Size: size}, "run" // the id of no case
	if caseID != "" {
		owner, i.CaseID = caseID, &caseID
	}
	of := sha
	if !strings.Contains(href, sha) {
		of = canon.Sum([]byte(href + "\n" + sha)).Hex() // two files with names of their own can have one content
	}
	i.AssetID = owner + "/" + string(kind) + "/" + of[:16]
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[href] = true
	d.items[href+"\x00"+caseID+"\x00"+string(kind)] = i // the keys have the order of the manifest
}

// Write writes a JSON file of the directory itself, such as "run.json", and replaces what stands
// there. Afterwards the file is durable, and so is every asset that was kept before.
func (d *Dir) Write(name string, text []byte) error {
	id, ok := strings.CutSuffix(name, ".json")
	if !ok {
		return at(name, errors.New("has no name that ends in .json"))
	}
	err := checkID(id)
	if err == nil {
		err = d.syncAssets()
	}
	if err == nil {
		err = d.put(name, text)
	}
	if err == nil {
		err = at(name, syncFolder(d.root, "."))
	}
	return err
}

// Manifest writes assets/manifest.json. A file in assets that no Keep, Meta or Adopt has named, as
// a killed process leaves it, is listed as an asset of the run, of kind other.
func (d *Dir) Manifest(generatedAt string) error {
	names, err := d.finished()
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, assets+"/") && name != ManifestFile && !d.kept[name] {
			err = d.Adopt(Other, "", name)
		}
	}
	if err != nil {
		return err
	}
	m := manifest{GeneratedAt: generatedAt, Items: []item{}, SchemaVersion: "assets-manifest.v1"}
	for _, key := range slices.Sorted(maps.Keys(d.items)) {
		m.Items = append(m.Items, d.items[key])
	}
	text, _, err := manifestPlan.Artifact(&m)
	if err == nil {
		err = d.put(ManifestFile, text)
	}
	if err == nil {
		err = d.syncAssets()
	}
	return err
}

// Seal returns the hash ("sha256:…") of each file that the final run.json fixes: the manifest, and
// every file of the directory itself but run.json, evaluation.json and signature.json.
func (d *Dir) Seal() (map[string]string, error) {
	names, err := d.finished()
	if err != nil {
		return nil, err
	}
	seal := map[string]string{}
	for _, name := range append(names, ManifestFile) {
		switch {
		case name == RunFile, name == EvaluationFile, name == SignatureFile, strings.Contains(name, "/") && name != ManifestFile:
			continue
		}
		sha, _, err := d.Hash(name, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		seal[name] = "sha256:" + sha
	}
	return seal, nil
}

// finished returns the names of all files. It refuses a temporary file, and an entry that is
// neither a file nor a folder.
func (d *Dir) finished() ([]string, error) {
	names, faults, err := d.Names()
	for _, f := range faults {
		return nil, at(f.Name, errors.New(f.What+": remove it"))
	}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), tempPrefix) {
			return nil, at(name, errors.New("is not finished: resume the run, which removes it"))
		}
	}
	return names, err
}
