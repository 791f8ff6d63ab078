package verify

import (
	"encoding/base64"
	"fmt"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// rehash computes the references of one name of the table in
// specs/vectors/pack/README.md again.
func (d *draft) rehash(what string) error {
	bundle, _ := d.values[pack.BundleFile].(map[string]any)
	run, _ := d.values[pack.RunFile].(map[string]any)
	switch what {
	case "contents":
		for _, out := range objects(bundle["outputs"]) {
			content, _ := out["content"].(string)
			raw := []byte(content)
			if out["encoding"] == any("base64") {
				var err error
				if raw, err = base64.StdEncoding.Strict().DecodeString(content); err != nil {
					return err
				}
			}
			out["content_hash"] = canon.Sum(raw).Hex()
		}
	case "ids":
		if bundle == nil {
			return nil
		}
		return newIDs(bundle)
	case "bundle":
		return d.nameBundle(run)
	case "sandbox":
		execution, executed := run["execution"].(map[string]any)
		ref, _ := run["bundle"].(map[string]any)
		if !executed {
			return nil
		}
		id, err := canon.ID("sbx_", map[string]any{"bundle_sha256": ref["sha256"], "policy": run["policy"]})
		execution["sandbox_id"] = id
		return err
	case "policy":
		d.values[pack.PolicyFile] = run["policy"]
		delete(d.bytes, pack.PolicyFile)
	case "patch":
		patch, ok := d.values[pack.PatchFile].(map[string]any)
		if !ok {
			return nil
		}
		total := 0
		for _, op := range objects(patch["operations"]) {
			content, ok := op["content"].(string)
			if !ok {
				continue
			}
			size := len(content)
			total += size
			if op["encoding"] == any("base64") {
				raw, err := base64.StdEncoding.Strict().DecodeString(content)
				if err != nil {
					return err
				}
				size = len(raw)
			}
			op["size_bytes"] = size
		}
		patch["total_bytes"] = total
	default:
		return fmt.Errorf("no reference %q", what)
	}
	return nil
}

// objects returns the elements of a list that are objects.
func objects(list any) []map[string]any {
	var out []map[string]any
	all, _ := list.([]any)
	for _, one := range all {
		if obj, ok := one.(map[string]any); ok {
			out = append(out, obj)
		}
	}
	return out
}

func newIDs(bundle map[string]any) error {
	root, _ := bundle["root_node"].(map[string]any)
	nodes := objects(bundle["terminal_nodes"])
	if root != nil {
		nodes = append(nodes, root)
	}
	questions := objects(bundle["unresolved_questions"])
	for _, n := range nodes {
		questions = append(questions, objects(n["unresolved_questions"])...)
	}
	for _, group := range []struct {
		prefix  string
		list    []map[string]any
		members []string
	}{
		{"q_", questions, []string{"expected_answer_type", "text", "why_needed"}},
		{"node_", nodes, []string{"constraints", "goal", "parent_id"}},
		{"out_", objects(bundle["outputs"]), []string{"content", "path", "type"}},
	} {
		for _, obj := range group.list {
			if err := newID(obj, group.prefix, group.members); err != nil {
				return err
			}
		}
	}
	delete(bundle, "id")
	id, err := canon.ID("bundle_", bundle)
	bundle["id"] = id
	return err
}

// newID does not change an object that lacks one of the members.
func newID(obj map[string]any, prefix string, members []string) error {
	about := map[string]any{}
	for _, m := range members {
		value, ok := obj[m]
		if !ok {
			return nil
		}
		about[m] = value
	}
	id, err := canon.ID(prefix, about)
	obj["id"] = id
	return err
}

// nameBundle makes all references name the current bundle. If the bundle is no object,
// its id is unknown.
func (d *draft) nameBundle(run map[string]any) error {
	text, err := d.text(pack.BundleFile)
	if err != nil {
		return err
	}
	value, _ := lenient(text)
	bundle, _ := value.(map[string]any)
	for _, ref := range []struct {
		of       any
		id, hash string
	}{
		{run["bundle"], "bundle_id", "sha256"},
		{d.values[pack.EvidenceFile], "proposal_id", "proposal_hash"},
		{d.values[pack.PatchFile], "source_proposal_id", "source_proposal_hash"},
	} {
		obj, ok := ref.of.(map[string]any)
		if !ok {
			continue
		}
		obj[ref.hash] = string(decode(pack.BundleFile, text).sum())
		if id, ok := bundle["id"]; ok {
			obj[ref.id] = id
		}
	}
	return nil
}
