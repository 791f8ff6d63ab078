package asset

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// Dir is a version directory that is written. Several goroutines can use it at once, but not with
// Manifest, Seal and Close. Until Close no other process can resume it; on Windows, where folders
// have no locks, one can.
type Dir struct {
	Files  // the same directory for reading
	side   string
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
	AssetID string     `json:"asset_id"`
	CaseID  *string    `json:"case_id"`
	Href    string     `json:"href"`
	Kind    trial.Kind `json:"kind"`
	SHA256  string     `json:"sha256"`
	Side    string     `json:"side"`
	Size    int64      `json:"size_bytes"`
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
	if side != string(trial.Baseline) && side != string(trial.New) {
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
	defer above.Close()
	d := &Dir{side: side, out: out, place: side + "/" + runID, kept: map[string]bool{}, items: map[string]item{}}
	if create {
		err = makeFolder(above.root, side, nil)
		if err == nil {
			err = makeFolder(above.root, d.place, ErrExists)
		}
	}
	if err == nil {
		err = withoutLinks(above.root, d.place, true)
	}
	if err == nil {
		err = errors.Join(syncFolder(above.root, side), syncFolder(above.root, "."))
	}
	if err == nil {
		d.root, err = above.root.OpenRoot(d.place)
	}
	if err != nil {
		return nil, at(d.place, err)
	}
	if err := d.prepare(); err != nil {
		_ = d.Close()
		return nil, at(d.place, err)
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
	if err := makeFolder(d.root, trial.AssetsFolder, nil); err != nil {
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
func (d *Dir) Close() error { return errors.Join(d.locked.Close(), d.root.Close()) }

// InPlace says whether the directory still stands at OUT/SIDE/RUN_ID, and no link. The error wraps
// ErrMoved if something else stands there: what was written lies where the directory was moved.
func (d *Dir) InPlace() error {
	above, err := Open(d.out)
	if err != nil {
		return ErrMoved
	}
	defer above.Close()
	there, err := above.root.Lstat(d.place)
	own, gone := d.root.Stat(".")
	if err := errors.Join(err, gone, withoutLinks(above.root, d.place, true)); err != nil || !os.SameFile(there, own) {
		return at(d.place, ErrMoved)
	}
	return nil
}

// Keep keeps a content as an asset of a case, or of the run if caseID is empty. It returns the
// asset's href, and its SHA-256 as 64 hexadecimal digits. Equal content has one file. The asset is
// durable after the next Write.
func (d *Dir) Keep(kind trial.Kind, caseID string, content []byte) (href, sha256 string, err error) {
	a := trial.NewAsset(kind, content)
	err = checkOwner(caseID)
	d.mu.Lock()
	kept := d.kept[a.Href]
	d.mu.Unlock()
	if err == nil && !kept {
		err = d.put(a.Href, content)
	}
	if err != nil {
		return "", "", err
	}
	d.add(a, caseID, int64(len(content)))
	return a.Href, a.SHA256, nil
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
	d.add(trial.Asset{Href: href, Kind: trial.KindFailureMeta, SHA256: canon.Sum(text).Hex()}, caseID, int64(len(text)))
	return href, nil
}

// MetaHref returns the href of the metadata of a failed attempt.
func MetaHref(caseID, side string, attempt int) string {
	return fmt.Sprintf("%s/%s.%s.attempt%d.meta.json", trial.AssetsFolder, caseID, side, attempt)
}

// Adopt adds an asset that a resumed directory has to the manifest. It refuses an asset whose
// content does not have the hash that its name says.
func (d *Dir) Adopt(kind trial.Kind, caseID, href string) error {
	folder, name := path.Split(href)
	if folder != trial.AssetsFolder+"/" || href == trial.ManifestFile || strings.HasPrefix(name, tempPrefix) {
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
	d.add(trial.Asset{Href: href, Kind: kind, SHA256: sha}, caseID, size)
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
func (d *Dir) add(a trial.Asset, caseID string, size int64) {
	i := item{AssetID: a.ID("run"), Href: a.Href, Kind: a.Kind, SHA256: a.SHA256, Side: d.side, Size: size} // run is the id of no case
	if caseID != "" {
		i.AssetID, i.CaseID = a.ID(caseID), &caseID
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[a.Href] = true
	d.items[a.Href+"\x00"+caseID+"\x00"+string(a.Kind)] = i // the keys have the order of the manifest
}

// Write writes a JSON file of the directory itself, such as "run.json", and replaces what stands
// there. Afterwards the file is durable, and so is every asset that was kept before.
func (d *Dir) Write(name string, text []byte) error {
	id, ok := strings.CutSuffix(name, ".json")
	if !ok {
		return at(name, errors.New("has no name that ends in .json"))
	}
	if err := checkID(id); err != nil {
		return err
	}
	if err := d.syncAssets(); err != nil {
		return err
	}
	if err := d.put(name, text); err != nil {
		return err
	}
	return at(name, syncFolder(d.root, "."))
}

// Manifest writes assets/manifest.json. It removes what Keep and Meta of an earlier process have
// left for a case that has run again. Any other file in assets is listed as an asset of the run,
// of kind other.
func (d *Dir) Manifest(generatedAt string) error {
	names, err := d.finished()
	for _, name := range names {
		switch {
		case err != nil, !strings.HasPrefix(name, trial.AssetsFolder+"/"), name == trial.ManifestFile, d.kept[name]:
		case d.made(name):
			err = at(name, d.root.Remove(name))
		default:
			err = d.Adopt(trial.KindOther, "", name)
		}
	}
	if err != nil {
		return err
	}
	m := manifest{GeneratedAt: generatedAt, Items: []item{}, SchemaVersion: trial.ManifestVersion}
	for _, key := range slices.Sorted(maps.Keys(d.items)) {
		m.Items = append(m.Items, d.items[key])
	}
	text, _, err := manifestPlan.Artifact(&m)
	if err != nil {
		return err
	}
	if err := d.put(trial.ManifestFile, text); err != nil {
		return err
	}
	return d.syncAssets()
}

// made says whether Keep or Meta gives a file this name.
func (d *Dir) made(name string) bool {
	base := path.Base(name)
	stem, ext := strings.TrimSuffix(base, path.Ext(base)), path.Ext(base)
	_, err := hex.DecodeString(stem)
	return len(stem) == 64 && err == nil && (ext == ".txt" || ext == ".bin") || strings.Contains(base, "."+d.side+".attempt") && strings.HasSuffix(base, ".meta.json")
}

// Seal returns the hash ("sha256:…") of each file that the final run.json fixes: the manifest, and
// every file of the directory itself but run.json, evaluation.json and signature.json.
func (d *Dir) Seal() (map[string]string, error) {
	names, err := d.finished()
	if err != nil {
		return nil, err
	}
	seal := map[string]string{}
	for _, name := range append(names, trial.ManifestFile) {
		id, json := strings.CutSuffix(name, trial.CaseSuffix)
		if json && trial.Reserved(id) || strings.Contains(name, "/") && name != trial.ManifestFile {
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
	names, others, err := d.Names()
	for _, other := range others {
		return nil, at(other.Name, errors.New(other.What+": remove it"))
	}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), tempPrefix) {
			return nil, at(name, errors.New("is not finished: resume the run, which removes it"))
		}
	}
	return names, err
}
