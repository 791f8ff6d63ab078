package compare

import (
	"crypto/rand"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/specs"
)

// Bless copies runs of new as runs of baseline to a place where nothing stands yet: one run to the
// place itself, several to folders in it under their ids. Either all of it is there afterwards, or
// nothing. In the copy the documents name baseline, blessed_from of run.json is the hash of the
// run.json that was blessed, and the seal is made anew. sign makes signature.json of run.json; nil:
// nobody signs. The error is a *result.RunError.
func Bless(runs []*Version, to string, sign func(run []byte) ([]byte, error)) (err error) {
	for _, v := range runs {
		if v.Side != trial.New {
			return broken(v.Path, "the directory is of "+string(v.Side), "name runs of new: a baseline needs no blessing")
		}
		if !v.Valid {
			return broken(v.Path, "the directory is not valid", "run fiador suite verify, which names every violation")
		}
		if _, in := Within(v.Path, to); in {
			return broken(v.Path, "the baseline would lie in the run that is blessed, which does not change", "name another place with --to")
		}
	}
	if err := together(runs); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, v := range runs {
		folder := strings.ToLower(v.RunID)
		if why := trial.IDFault(v.RunID); len(runs) > 1 && (why != "" || names[folder]) {
			return broken(v.Path, "the run id "+canon.Quote(v.RunID)+" cannot name a folder beside the others", "bless each run to a place of its own")
		}
		names[folder] = true
	}
	defer func() {
		var re *result.RunError
		if err != nil && !errors.As(err, &re) {
			err = runerr.New(result.CodeEvidence, screen.Folder(to)+": the baseline cannot be kept: "+runerr.Reason(err), "give the folder above room and permission", runerr.Because(err))
		}
	}()
	if _, err := os.Lstat(to); err == nil {
		return runerr.New(result.CodeEvidence, screen.Folder(to)+": something stands there", "name another place with --to, or remove that baseline")
	}
	above, name := filepath.Dir(filepath.Clean(to)), filepath.Base(filepath.Clean(to))
	if _, err := os.Lstat(filepath.Join(above, trial.RunFile)); err == nil {
		return broken(above, "the baseline would lie in this run, which does not change", "name another place with --to")
	}
	if err := os.MkdirAll(above, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	defer root.Close()
	temp := tempPrefix + rand.Text()
	if err := root.Mkdir(temp, 0o777); err != nil {
		return err
	}
	defer root.RemoveAll(temp) // nothing is there after the rename
	var made []string
	for _, v := range runs {
		place := temp
		if len(runs) > 1 {
			place = path.Join(temp, v.RunID)
		}
		names, err := v.copyTo(root, place, sign)
		if err != nil {
			return err
		}
		made = append(made, names...)
	}
	if err := durable.SyncAll(root, append(made, temp)); err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		return err
	}
	return durable.SyncAll(root, []string{"."})
}

// copyTo writes the run as one of baseline, and returns the names of what it has made.
func (v *Version) copyTo(root *os.Root, place string, sign func(run []byte) ([]byte, error)) (made []string, err error) {
	put := func(name string, text []byte) {
		at := path.Join(place, name)
		if err == nil {
			err = root.MkdirAll(path.Dir(at), 0o777)
		}
		if err == nil {
			err = root.WriteFile(at, text, 0o666)
		}
		made = append(made, at, path.Dir(at))
	}
	seal, sums := object{}, map[string]sum{}
	for _, name := range v.dir.Names {
		id, isCase := strings.CutSuffix(name, trial.CaseSuffix)
		isCase = isCase && !strings.Contains(name, "/") && !trial.Reserved(id)
		if slices.Contains([]string{trial.RunFile, trial.ManifestFile, trial.EvaluationFile, trial.SignatureFile}, name) {
			continue // written below, or of an earlier comparison
		}
		text := v.dir.Content(name)
		if isCase {
			text, err = v.renamed(name, specs.KindSuiteCase)
		} else if v.metaFiles()[name] {
			text, err = v.renamed(name, specs.KindSuiteFailureMeta)
		}
		if err != nil {
			return nil, err
		}
		put(name, text)
		if isCase {
			seal[name] = string(canon.Sum(text))
		} else {
			sums[name] = sum{canon.Sum(text).Hex(), int64(len(text))}
		}
	}
	manifest, err2 := v.manifest(sums)
	err = errors.Join(err, err2)
	put(trial.ManifestFile, manifest)
	seal[trial.ManifestFile] = string(canon.Sum(manifest))
	run := object{}
	for name, value := range v.run {
		run[name] = value
	}
	run["version"], run["blessed_from"], run["artifacts"] = string(trial.Baseline), string(v.SHA256), seal
	text, err2 := literal(run)
	err = errors.Join(err, err2, v.dir.Err())
	put(trial.RunFile, text)
	if err == nil && sign != nil {
		var signature []byte
		signature, err = sign(text)
		put(trial.SignatureFile, signature)
	}
	slices.Sort(made)
	return slices.Compact(made), err
}

// sum is the hash and the size of an asset.
type sum struct {
	sha256 string
	size   int64
}

// metaFiles returns the files that describe bodies, of all attempts.
func (v *Version) metaFiles() map[string]bool {
	if v.metas == nil {
		v.metas = map[string]bool{}
		note := func(doc object, member string) {
			if name, ok := doc[member].(string); ok {
				v.metas[name] = true
			}
		}
		for _, item := range v.items() {
			if item["kind"] == any(string(trial.KindFailureMeta)) {
				note(item, "href")
			}
		}
		for _, c := range v.cases {
			failure, _ := c.Doc["runner_failure"].(object)
			note(failure, "full_body_meta_saved_to")
		}
	}
	return v.metas
}

// items returns the assets of the manifest, if there is one.
func (v *Version) items() (items []object) {
	if !slices.Contains(v.dir.Names, trial.ManifestFile) {
		return nil
	}
	value, _ := v.dir.Document(trial.ManifestFile, string(specs.KindSuiteManifest))
	doc, _ := value.(object)
	list, _ := doc["items"].([]any)
	for _, one := range list {
		if item, ok := one.(object); ok {
			items = append(items, item)
		}
	}
	return items
}

// renamed returns a document in which version is baseline.
func (v *Version) renamed(name string, kind specs.Kind) ([]byte, error) {
	value, _ := v.dir.Document(name, string(kind))
	doc, ok := value.(object)
	if !ok {
		return nil, errors.New(name + " is no object")
	}
	copied := object{}
	for member, value := range doc {
		copied[member] = value
	}
	copied["version"] = string(trial.Baseline)
	return literal(copied)
}

// manifest returns the manifest for assets with these hashes: the items that the run has, and one
// for each other file.
func (v *Version) manifest(sums map[string]sum) ([]byte, error) {
	var items []any
	listed := map[string]bool{}
	for _, was := range v.items() {
		href, _ := was["href"].(string)
		now, there := sums[href]
		if !there {
			continue // the case file or the manifest itself, which the seal has
		}
		item := object{"sha256": now.sha256, "size_bytes": now.size, "side": string(trial.Baseline)}
		for _, member := range []string{"asset_id", "href", "kind", "case_id"} {
			item[member] = was[member]
		}
		items, listed[href] = append(items, item), true
	}
	for name, s := range sums {
		if !listed[name] {
			id := "run/other/" + canon.Sum([]byte(name + "\n" + s.sha256)).Hex()[:16]
			items = append(items, object{"asset_id": id, "href": name, "kind": string(trial.KindOther), "case_id": nil, "sha256": s.sha256, "size_bytes": s.size, "side": string(trial.Baseline)})
		}
	}
	key := func(one any) string {
		item := one.(object)
		id, _ := item["case_id"].(string)
		return item["href"].(string) + "\x00" + id + "\x00" + item["kind"].(string)
	}
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	generated, _ := v.run["generated_at"].(string)
	return literal(object{"schema_version": trial.ManifestVersion, "generated_at": generated, "items": items})
}

func literal(doc object) ([]byte, error) {
	text, err := canon.Literal(doc)
	return append(text, '\n'), err
}
